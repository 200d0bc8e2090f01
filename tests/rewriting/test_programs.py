"""Derivatives of many programs, before judges that know no rule of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.folders import modules_of
from tests.rewriting import programs
from tests.rewriting.judging import differences, directions, forwards, listed, pairing, weighed, weights

NAMES = list(programs.PROGRAMS)
#: Programs of which differences say little: they convert to integers, or compute in float32.
JUMPS = ("integers_beside", "narrow_types", "bilateral_grid")


@pytest.mark.parametrize("name", NAMES)
def test_both_modes_agree_with_differences_and_with_each_other(name: str) -> None:
    f, exact = programs.PROGRAMS[name](), name in programs.EXACT
    g, forward = tm.vjp(f), tm.jvp(f)
    assert g.step.check().ok, g.step.check()
    assert forward.check().ok, forward.check()
    for sizes in programs.SIZES[name]:
        numbers = np.random.default_rng(len(name))
        given = programs.arguments(f, sizes, 3, exact)
        v, w = directions(f, given, numbers, exact), weights(f, given, numbers, exact)
        tangent = forwards(forward, f, given, v)
        found = listed(g.step.evaluate(**weighed(f, given, w)))[-len(g.wrt) :]
        ahead = sum(pairing(a, b) for a, b in zip(tangent, w, strict=True))
        back = sum(pairing(v[each], d) for each, d in zip(g.wrt, found, strict=True))
        if exact:
            assert ahead == back, (name, sizes)
        else:
            np.testing.assert_allclose(back, ahead, rtol=1e-5 if name in ("narrow_types", "bilateral_grid") else 1e-10)
        if name not in JUMPS:
            for one, other in zip(tangent, differences(f, given, v, 1e-6), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("elementary", *JUMPS)])
def test_the_derivative_of_a_step_is_right_too(name: str) -> None:
    step, exact = tm.vjp(programs.PROGRAMS[name]()).step, name in programs.EXACT
    g, forward = tm.vjp(step), tm.jvp(step)
    assert g.step.check().ok and forward.check().ok
    numbers = np.random.default_rng(0)
    given = programs.arguments(step, programs.SIZES[name][-1], 3, exact)
    v, w = directions(step, given, numbers, exact), weights(step, given, numbers, exact)
    tangent = forwards(forward, step, given, v)
    by = {each: a if a.shape else a.item() for each, a in zip(g.adjoints.cotangents.values(), w, strict=True)}
    found = listed(g.step.evaluate(**given, **by))[-len(g.wrt) :]
    ahead = sum(pairing(a, b) for a, b in zip(tangent, w, strict=True))
    back = sum(pairing(v[each], d) for each, d in zip(g.wrt, found, strict=True))
    assert ahead == back if exact else np.isclose(ahead, back, rtol=1e-9)
    for one, other in zip(tangent, differences(step, given, v), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


POLYBENCH = Path(__file__).resolve().parents[2] / "examples" / "polybench"
KERNELS = sorted(each.stem for each in POLYBENCH.glob("*.py") if each.stem != "kernel_story")
#: Kernels of integers: shortest paths, and pairs of a sequence.
OF_INTEGERS = {"floyd_warshall": "d_out is int32", "nussinov": "pairs is int32"}
#: Kernels whose output is half of an array of the caller's; the other half has no values.
IN_PLACE = ("cholesky", "syr2k", "syrk")


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_of_polybench_have_derivatives(name: str) -> None:
    with modules_of(POLYBENCH) as load:
        f = load(name).algorithm()
    if name in OF_INTEGERS:
        with pytest.raises(tm.DeclarationError, match=OF_INTEGERS[name]):
            tm.vjp(f)
        return
    g, forward = tm.vjp(f), tm.jvp(f)
    assert g.step.check().ok
    numbers = np.random.default_rng(0)
    given = programs.arguments(f, dict.fromkeys(f.algorithm.params, 5), 3, False)
    for each, declared in f.algorithm.inputs.items():
        if np.ndim(given[each]) == 2 and name in ("cholesky", "lu", "ludcmp"):
            square = given[each] @ given[each].T + 5 * np.eye(5)  # positive definite
            given[each] = square.astype(declared.dtype.numpy)
    v, w = directions(f, given, numbers, False), weights(f, given, numbers, False)
    tangent = forwards(forward, f, given, v)
    found = listed(g.step.evaluate(**weighed(f, given, w)))[-len(g.wrt) :]
    ahead = sum(pairing(a, b) for a, b in zip(tangent, w, strict=True))
    narrow = any(declared.dtype == tm.float32 for declared in f.algorithm.inputs.values())
    np.testing.assert_allclose(
        sum(pairing(v[each], d) for each, d in zip(g.wrt, found, strict=True)), ahead, rtol=1e-4 if narrow else 1e-10
    )
    for one, other in zip(tangent, differences(f, given, v, 1e-3 if narrow else 1e-6), strict=True):
        if name not in IN_PLACE:
            np.testing.assert_allclose(one, other, rtol=1e-3 if narrow else 1e-5, atol=1e-3 if narrow else 1e-6)
