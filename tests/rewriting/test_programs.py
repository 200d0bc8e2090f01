"""Derivatives of many programs, before judges that know no rule of them."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.rewriting import programs
from tests.rewriting.judging import differences, directions, forwards, listed, pairing, weighed, weights

NAMES = list(programs.PROGRAMS)


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
        if name not in ("integers_beside", "products_with_zeros", "narrow_types", "bilateral_grid"):
            for one, other in zip(tangent, differences(f, given, v, 1e-6), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
