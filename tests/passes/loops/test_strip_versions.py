"""Versions of partial tiles for each number of vectors: their tests and loops."""

from __future__ import annotations

import pytest

from tests.programs.loop_ir.kernels import least, tiles
from tests.programs.loop_ir.nodes import loops, of
from tests.programs.loop_ir.short_names import loop, size, store, var
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.ir import If, Mask, Node, Prefetch
from tiramisu_py.ir.rewriting import Names
from tiramisu_py.passes.loops.full_tiles import full_tiles
from tiramisu_py.passes.vectors.vectorize import vectorize
from tiramisu_py.program.loops import Parallel, Tag, Unroll, Vector

N, M, i0, i1, j0 = size("N"), size("M"), var("i0"), var("i1"), var("j0")
MASKED = Vector(16, remainder="mask", partial="specialize")
PADDED = Vector(16, remainder="pad", partial="specialize")
LEFT = N - 64 * i0
LAST = "min(64, N - 64 * i0)"


def over(*body: Node, tag: Tag | None = None) -> Node:
    return full_tiles(loop("i0", tiles(N, 64), *body, tag=tag))


def tile(upper: Expr, tag: Tag = MASKED) -> Node:
    return loop("i1", upper, store("y", 64 * i0 + i1, 1.0), tag=tag)


def asked(node: Node) -> list[str]:
    return [str(test.condition) for test in of(node, If) if isinstance(test, If)]


def bounds(node: Node) -> list[str]:
    return [str(each.upper) for each in loops(node) if each.variable == "i1"]


#: The bounds of a masked loop in its versions: vectors that are whole, then the last one.
WHOLE_AND_LAST = [
    ["48", "min(64, N - 64 * i0)"],
    ["32", "min(48, N - 64 * i0)"],
    ["16", "min(32, N - 64 * i0)"],
    ["min(16, N - 64 * i0)"],
]
IN_VERSIONS = [bound for version in WHOLE_AND_LAST for bound in version]
VERSIONS = ["N - 64 * i0 >= 49", "N - 64 * i0 >= 33", "N - 64 * i0 >= 17", "N - 64 * i0 >= 1"]


def test_a_partial_tile_has_a_version_for_each_number_of_vectors_of_which_the_last_is_masked() -> None:
    found = over(tile(least(64, LEFT)))
    assert asked(found) == VERSIONS
    assert bounds(found) == ["64", *IN_VERSIONS]
    masks = [mask for mask in of(vectorize(found, Names(())), Mask) if isinstance(mask, Mask)]
    assert len(masks) == 4


def test_a_padded_loop_has_constant_bounds_in_each_version() -> None:
    found = over(tile(least(64, (N + 15) // 16 * 16 - 64 * i0), PADDED))
    assert asked(found) == VERSIONS[1:]
    assert bounds(found) == ["64", "48", "32", "16"]


def test_loops_of_one_tile_share_the_versions() -> None:
    padded = tile(least(64, (N - 1) // 16 * 16 + 16 - 64 * i0), PADDED)
    found = over(padded, tile(least(64, LEFT)))
    assert asked(found) == VERSIONS
    both = [[str(most), *masked] for most, masked in zip((64, 48, 32, 16), WHOLE_AND_LAST, strict=True)]
    assert bounds(found) == ["64", "64", *(bound for version in both for bound in version)]


def test_loops_of_other_tiles_stay_as_they_are() -> None:
    other = loop("i1", least(32, M - 64 * i0), store("z", 64 * i0 + i1, 1.0), tag=MASKED)
    found = over(tile(least(64, LEFT)), other, tag=Parallel())
    for bound in ("64", "min(48, N - 64 * i0)", "32", "min(32, M - 64 * i0)", "min(16, M - 64 * i0)"):
        assert bound in bounds(found)


def test_rows_have_versions_in_full_vectors_and_vectors_in_full_rows() -> None:
    rows = loop("j", least(2, M), tile(least(64, LEFT)), tag=Unroll(remainder="specialize"))
    found = over(rows, tag=Parallel())
    assert bounds(found) == ["64", *IN_VERSIONS, "64", LAST]
    assert [str(each.upper) for each in loops(found) if each.variable == "j"] == ["2"] * 5 + ["min(2, M)"]


def test_a_corner_has_one_general_version_beside_all_others() -> None:
    rows = loop("j", least(6, M - 6 * j0), tile(least(64, LEFT)), tag=Unroll(remainder="specialize"))
    found = over(loop("j0", tiles(M, 6), rows))
    versions = ["64"] * 5 + IN_VERSIONS
    assert bounds(found) == ["64", *versions, LAST]
    assert [each.tag for each in loops(found) if str(each.upper) == "min(6, M - 6 * j0)"] == [None]


def test_only_full_tiles_prefetch() -> None:
    ahead = Prefetch("y", (64 * i0 + i1 + 64,), 3, "S")
    vectors = loop("i1", least(64, LEFT), ahead, store("y", 64 * i0 + i1, 1.0), tag=MASKED)
    rows = loop("j", least(6, M - 6 * j0), vectors, tag=Unroll(remainder="specialize"))
    found = over(loop("j0", tiles(M, 6), rows))
    fetching = [each for each in loops(found) if each.variable == "j" and any(True for _ in of(each, Prefetch))]
    assert [str(each.upper) for each in fetching] == ["6"]


@pytest.mark.parametrize(
    ("upper", "tag"),
    [
        (LEFT, MASKED),  # no extent is known
        (least(60, LEFT), MASKED),  # no whole vectors
        (least(256, LEFT), MASKED),  # too many vectors
        (least(64, N + 8 - 64 * i0), PADDED),  # not padded to whole vectors
    ],
)
def test_what_is_no_tile_of_whole_vectors_has_no_versions(upper: Expr, tag: Tag) -> None:
    found = over(tile(upper, tag))
    assert str(upper) in bounds(found) or len(bounds(found)) <= 2
    assert len(asked(found)) == 0
