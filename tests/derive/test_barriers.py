"""Barriers: as few as needed, as far out as possible, none under divergent control."""

from __future__ import annotations

from tests.derive.building import barriers, in_shared, on_gpu
from tests.programs import Draft
from tests.proof.stories import c, i, i0, i1, j, j0, j1, k, k0, k1, product, r
from tiramisu_py.derive.barriers import with_barriers
from tiramisu_py.function.handles import Input


def tiled_product() -> Draft:
    """The matrix product in tiles of 16, with tiles of both factors in shared memory."""
    f, result = product()
    result.init.tile(i, j, 16, 16, i0, j0, i1, j1)
    result.update.tile(i, j, 16, 16, i0, j0, i1, j1)
    result.update.split(k, 16, k0, k1)
    result.update.reorder(i0, j0, k0, i1, j1, k1)
    result.update.after(result.init, j0)
    result.update.cache(Input(f, "A"), k0, [r, c], name="a")
    result.update.cache(Input(f, "B"), k0, [r, c], name="b")
    on_gpu(f, "C_init", [i0, j0], [i1, j1])
    for name, threads in [("C_update", [i1, j1]), ("a", [r, c]), ("b", [r, c])]:
        on_gpu(f, name, [], threads)
    in_shared(f, "a")
    in_shared(f, "b")
    return f


def test_a_tiled_product_needs_two_barriers_in_each_step() -> None:
    program = with_barriers(tiled_product().program)
    assert barriers(program) == ["i0 j0 k0", "i0 j0 k0"]
