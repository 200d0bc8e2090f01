"""Translation validation: the loops of a function after each pass, run beside what the algorithm says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tiramisu_py import interpret, ir, passes
from tiramisu_py.errors import CompilerDefect

Array = npt.NDArray[Any]


def validated(
    stages: Iterable[passes.Stage],
    run: Callable[[ir.LoopFunction], Sequence[Array]],
    wanted: Sequence[Array],
    exact: bool,
) -> tuple[str, ...]:
    """The names of the stages that changed the loops; all of them are sound, and `run` gives the outputs `wanted`.

    Raises `CompilerDefect` for the first one that is not. Outputs are compared bit for bit if they are to be `exact`.
    """
    changed, before = list[str](), None
    try:
        for stage in stages:
            said, now = next(stage.faults(), ""), passes.shape(stage.function)
            if not said and now != before:
                said = _wrong(stage.function, run, wanted, exact)
                changed.append(stage.name)
            if said:
                raise CompilerDefect(f"the loops are wrong after {stage.name}: {said}")
            before = now
    except passes.PassFailedError as error:
        raise CompilerDefect(f"a pass failed, {error}") from error
    return tuple(changed)


def _wrong(
    function: ir.LoopFunction, run: Callable[[ir.LoopFunction], Sequence[Array]], wanted: Sequence[Array], exact: bool
) -> str:
    """The first output that some loops do not compute; empty if there is none."""
    try:
        results = run(function)
    except interpret.InterpretError as error:
        return str(error)
    for name, found, expected in zip(function.outputs, results, wanted, strict=True):
        right = np.reshape(expected, found.shape)
        odd = np.argwhere(~_alike(found, right, exact))
        if len(odd):
            at = tuple(map(int, odd[0]))
            return f"{name}{list(at)} is {found[at]}, not {right[at]}"
    return ""


def _alike(found: Array, wanted: Array, exact: bool) -> npt.NDArray[np.bool_]:
    """The elements that are equal: in all bits, but for those of NaN, or within half the digits of their type."""
    if found.dtype.kind not in "fV" or not exact:
        near = _near(found, wanted) if found.dtype.kind == "f" else found == wanted
        return np.asarray(near)
    bits = [np.ascontiguousarray(each).view(f"u{each.dtype.itemsize}") for each in (found, wanted)]
    return np.asarray((bits[0] == bits[1]) | ((found != found) & (wanted != wanted)))


def _near(found: Array, wanted: Array) -> npt.NDArray[np.bool_]:
    digits = float(np.sqrt(np.finfo(found.dtype).eps))
    return np.isclose(found, wanted, rtol=digits, atol=digits, equal_nan=True)
