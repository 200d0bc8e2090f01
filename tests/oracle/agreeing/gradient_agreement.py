"""Gradients beside differences of the function, and both modes beside each other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import tiramisu_py as tm
from tests.oracle.agreeing import agreement
from tests.oracle.agreeing.agreement import Verdict
from tests.oracle.agreeing.whole_agreement import has_values
from tests.oracle.generators.script import Script
from tests.oracle.judges.judge import sizes
from tests.rewriting.judging import Given, differences, directions, forwards, listed, pairing, weighed, weights

#: Sums of products of whole numbers are exact below this.
EXACT = 2.0**50
#: So many sizes are tried at most.
MOST_SIZES = 4


def compared(script: Script, seed: int) -> Verdict:
    """Gradients that are wrong at some size; else the proof beside the judge, which knows no places that are values."""
    wrong = wrong_gradient(script, seed)
    if wrong:
        return Verdict("wrong gradient", wrong)
    if has_values(script):
        return Verdict("accepted" if script.function.check().ok else "refused")
    return agreement.compared(script)


def wrong_gradient(script: Script, seed: int) -> str:
    """What a step computes wrong, at a few sizes."""
    whole, step = script.names["whole"], script.names["f"]
    forward = tm.jvp(whole)
    names = whole.algorithm.params
    few = sizes(whole.program, {1: 5, 2: 3}.get(len(names), 2))
    numbers = np.random.default_rng(seed)
    for params in few[:: max(1, len(few) // MOST_SIZES)]:
        for exact in (True, False):
            said = _wrong_at(whole, step, forward, params, numbers, exact)
            if said:
                return f"at {params}: {said}"
    return ""


def _wrong_at(
    whole: tm.Function,
    step: tm.Function,
    forward: tm.Function,
    params: Mapping[str, int],
    numbers: np.random.Generator,
    exact: bool,
) -> str:
    given = _arguments(whole, params, numbers, exact)
    v, w = directions(whole, given, numbers, exact), weights(whole, given, numbers, exact)
    tangent = forwards(forward, whole, given, v)
    found = listed(step.evaluate(**weighed(whole, given, w)))[-len(v) :]
    ahead = sum(pairing(a, b) for a, b in zip(tangent, w, strict=True))
    back = sum(pairing(a, b) for a, b in zip(v.values(), found, strict=True))
    largest = max(float(np.max(np.abs(each), initial=0, where=np.isfinite(each))) for each in (*tangent, *found))
    thirds = any(name.endswith("_ties") for name in step.algorithm.computations)  # of terms that share a maximum
    same = np.isclose(ahead, back, rtol=1e-12, atol=1e-12 * max(1.0, largest)) if thirds else ahead == back
    if exact and largest < EXACT and np.isfinite([ahead, back]).all() and not same:
        return f"<J v, w> is {ahead}, and <v, J^T w> is {back}"
    if not exact:
        for one, other in zip(tangent, differences(whole, given, v), strict=True):
            known = np.isfinite(other)  # the largest of nothing is infinite
            if not np.allclose(one[known], other[known], rtol=1e-4, atol=1e-4 * max(1.0, largest)):
                return f"the tangent is {one}, and differences give {other}"
    return ""


def _arguments(f: tm.Function, params: Mapping[str, int], numbers: np.random.Generator, exact: bool) -> Given:
    given: Given = dict(params)
    for name, declared in f.algorithm.inputs.items():
        shape = tuple(int(eval(str(extent), {"max": max}, dict(params))) for extent in declared.shape)
        if declared.dtype.is_float:
            made = numbers.integers(-2, 3, shape) if exact else numbers.uniform(-1.5, 1.5, shape)
            given[name] = made.astype(np.float64)
        else:
            assert declared.values is not None
            low, high = (int(eval(str(end), {"max": max}, dict(params))) for end in declared.values)
            given[name] = numbers.integers(low, max(high, low + 1), shape).astype(declared.dtype.numpy)
    return given
