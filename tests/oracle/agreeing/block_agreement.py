"""The proof of a block program beside its interpretation on NumPy, which knows no proof and no schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.oracle.agreeing.agreement import Verdict
from tests.oracle.generators.script import Script
from tests.oracle.judges.judge import sizes
from tests.oracle.judges.values import Values
from tiramisu_py.errors import ArgumentError

#: What an element has that no program has stored.
UNSTORED = -123456
Array = np.ndarray[Any, np.dtype[Any]]


def small(script: Script) -> list[dict[str, int]]:
    """Sizes from nothing to some blocks and something left over; N, M, and where there are terms K."""
    few = sizes(script.program, 2)
    names = script.program.algorithm.params
    more = [dict(zip(names, each, strict=False)) for each in ((5, 3, 4), (4, 9, 5), (9, 4, 7))]
    return [*few, *more]


def compared(script: Script, seed: int) -> Verdict:
    """What is accepted is right wherever it is interpreted, with the values of `evaluate()`; what is refused is wrong
    at the counterexample, or at a small size.
    """
    report = script.function.check()
    if report.ok:
        for params in small(script):
            given = inputs(script, params, seed)
            found = interpreted(script, params, given, seed)
            if isinstance(found, str):
                return Verdict("unsound", f"accepted, but at {params}: {found}")
            wanted = script.function.evaluate(**given, **params)
            for name, own, other in zip(found, found.values(), _listed(wanted), strict=True):
                if not np.array_equal(own, other):
                    return Verdict("unsound", f"at {params}: {name} is {other}, interpreted {own}")
        return Verdict("accepted")
    known = [violation for violation in report.violations if violation.kind != "unknown"]
    if not known:
        return Verdict("unknown", str(report.violations[0]))
    for params in ({**small(script)[0], **known[0].witness.params}, *small(script)):
        if isinstance(interpreted(script, params, inputs(script, params, seed), seed), str):
            return Verdict("refused")
    return Verdict("strict", f"interpretation finds nothing: {known[0]}")


def inputs(script: Script, params: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Small whole numbers, whose sums are exact in every order."""
    rng, algorithm = np.random.default_rng(seed), script.program.algorithm
    values = Values(algorithm, params)
    return {
        name: rng.integers(-3, 4, size=values.shape(source)).astype(source.dtype.numpy)
        for name, source in algorithm.inputs.items()
    }


def interpreted(
    script: Script, params: Mapping[str, int], given: Mapping[str, Array], seed: int
) -> dict[str, Array] | str:
    """The arrays that programs fill, one after another in random order; or what is wrong with them."""
    names, size, algorithm = script.names, (params["N"], params["M"]), script.program.algorithm
    outputs = {name: np.full(size, UNSTORED, algorithm.source(name).dtype.numpy) for name in algorithm.outputs}
    launcher = names["kernel"].interpret[names["grid"](*size)]
    try:
        launcher(*given.values(), *outputs.values(), seed=seed, **names["constants"])
    except ArgumentError as error:
        return str(error)
    for name, array in outputs.items():
        if (array == UNSTORED).any():
            return f"{name} is not stored everywhere"
    return outputs


def _listed(results: object) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)  # type: ignore[return-value]
