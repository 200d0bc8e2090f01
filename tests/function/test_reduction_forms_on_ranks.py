"""Reductions over ranks beside NumPy: operators, types, forms, numbers of ranks, and how ranks combine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.function.test_reduction_forms import (
    FLOATS,
    FORMS,
    KINDS,
    OPERATORS,
    N,
    expected,
    i,
    k,
    same,
    sample,
    specials,
)
from tests.selection import covering

q, k1 = tm.iters("q k1")
RANKS = (1, 2, 3, 4, 7)
EXTENTS = (1, 31, 97)


def over_ranks(operator: str, dtype: tm.DType, form: str, extent: int, ranks: int, combine: tm.Combine) -> tm.Function:
    """A reduction whose terms, so many, are dealt out to ranks in equal blocks; the last ones may have none."""
    shape, axis = {"all": ((1, extent), 1), "rows": ((N, extent), 1), "columns": ((extent, N), 0)}[form]
    f = tm.Function("reduced", params=[] if form == "all" else [N])
    a = f.input("a", dtype, list(shape))
    term = a[k, i] if axis == 0 else a[i, k]
    s = f.reduction("s", {i: shape[1 - axis]}, {k: extent}, OPERATORS[operator][0], term, dtype=dtype)
    f.outputs(s)
    share = -(-extent // ranks)
    a.distribute_array([k, i] if axis == 0 else [i, k], rank=k // share)
    s.update.split(k, share, q, k1)
    s.update.reorder(q, i, k1)
    s.update.tag_distribute(q, combine=combine)
    return f


@pytest.mark.parametrize(
    ("kind", "form", "ranks", "combine"),
    covering([*range(len(KINDS))], [*FORMS], RANKS, [tm.TREE, tm.PRIVATE]),
)
def test_on_ranks(kind: int, form: str, ranks: int, combine: tm.Combine) -> None:
    operator, dtype = KINDS[kind]
    if dtype in (tm.float16, tm.bfloat16):
        combine = tm.TREE  # MPI has no half precision
    for extent in (33, EXTENTS[kind % len(EXTENTS)]):
        f = over_ranks(operator, dtype, form, extent, ranks, combine)
        assert f.check().ok, f.check()
        function = f.show("lowered")
        a = sample(operator, dtype, form, extent)
        given: list[Any] = [a]
        if dtype in FLOATS and extent == 33:
            given += specials(a)
        assert function.grid is not None or ranks == 1 or extent == 1
        for seed, each in enumerate(given):
            same(f.simulate(ranks, seed=seed, a=each), expected(operator, each, form))


def test_ranks_without_terms_change_nothing() -> None:
    """Seven ranks, of which one has a term."""
    f = over_ranks("min", tm.float32, "rows", 1, 7, tm.TREE)
    a = np.array([[np.nan], [-0.0], [np.inf]], np.float32)
    assert f.simulate(7, a=a).tobytes() == a[:, 0].tobytes()
