"""Messages under way while the interior is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.ranks.derived import C, blur, c, heat, heat_on_grid, moved, q, r, r1, t
from tiramisu_py import sets
from tiramisu_py.ir import Complete, For, If, Node, Post, Store
from tiramisu_py.ir.rewriting import walk
from tiramisu_py.lower import lower
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.proof import theorem
from tiramisu_py.proof.report import Report


def places(program: Program, names: list[str], depth: int) -> list[int]:
    return [program.positions[name][depth] for name in names]


def of_kind(program: Program, ending: str) -> list[str]:
    return [name for name in program.statements if name.endswith(ending)]


def check_overlaps(f: tm.Function, depth: int) -> None:
    """Posts, then the interior, then waits, then the boundary: at one depth."""
    program = f.program
    posts = places(program, [*of_kind(program, "_send"), *of_kind(program, "_receive")], depth)
    interior = places(program, of_kind(program, "_interior"), depth)
    waits = places(program, of_kind(program, "_wait"), depth)
    boundary = places(program, [name for name in program.statements if "_boundary" in name], depth)
    assert max(posts) < min(interior) <= max(interior) < min(waits) <= max(waits) < min(boundary)
    report = f.check()
    assert report.ok, report


def test_the_rows_inside_of_a_block_need_no_message() -> None:
    f, plain = blur(), blur()
    f.derive_transfers(overlap=True)
    plain.derive_transfers()
    check_overlaps(f, 0)
    assert moved(f, Role.SEND, C=2) == moved(plain, Role.SEND, C=2)
    assert of_kind(f.program, "_interior") == ["by_interior"]
    assert [n for n in f.program.statements if "_boundary" in n] == ["by_boundary", "by_boundary2"]


def test_all_iterations_are_either_inside_or_at_the_boundary() -> None:
    f = heat(3, 5)
    whole = f.program.statements["u"]
    f.derive_transfers(overlap=True)
    parts = f.program.statements_of("u")
    together = None
    for part in parts:
        here = part.instances.set_tuple_name("u")
        assert together is None or together.is_disjoint(here)
        together = here if together is None else together.union(here)
    assert together is not None and together.is_equal(whole.instances)


def test_in_a_time_loop_each_step_overlaps() -> None:
    f = heat(4, 8)
    f.derive_transfers(overlap=True)
    check_overlaps(f, 1)


def test_on_a_grid_the_boundary_is_a_frame() -> None:
    f = heat_on_grid((2, 2), 4)
    f.derive_transfers(overlap=True)
    check_overlaps(f, 1)
    interior = f.program.statements["u_interior"]
    text = interior.instances.coalesce()
    assert len(text.get_basic_sets()) <= 4


def test_it_overlaps_when_it_is_derived_again() -> None:
    f = heat(4, 8)
    f.derive_transfers(overlap=True)
    before = f.cost("communication", T=3, C=5)
    f.derive_transfers(overlap=True)
    check_overlaps(f, 1)
    assert f.cost("communication", T=3, C=5).elements == before.elements
    f.derive_transfers()
    assert f.check().ok


def test_what_cannot_be_cut_is_left_in_one_piece() -> None:
    f = tm.Function("chain", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [12, C])
    s = f.computation(
        "s", {r: 12, c: C}, lambda s: tm.select(c < 1, a[r, c], tm.select(r > 10, 0.0, s[r, c - 1] + a[r + 1, c]))
    )
    f.outputs(s)
    for array in (a, s):
        array.distribute_array([r, c], rank=r // 3)
    s.split(r, 3, q, r1)
    s.interchange(r1, c)
    s.tag_distribute(q)
    f.derive_transfers(overlap=True)
    report = f.check()
    assert report.ok, report
    assert of_kind(f.program, "_wait")


@pytest.mark.parametrize("made", [heat, lambda: blur(4, 8, 2), lambda: heat_on_grid((2, 2), 8, corners=True)])
def test_the_interior_is_one_nest_without_guards(made: Callable[[], tm.Function]) -> None:
    f = made()
    f.derive_transfers(overlap=True)
    (name,) = of_kind(f.program, "_interior")
    body = lower(f.completed).body
    steps = [node.body for node in walk(body) if isinstance(node, For) and messages_in(node)]  # of time
    order = list(walk(steps[-1] if steps else body))
    nests = [node for node in order if isinstance(node, For) and computes(node, name)]
    assert not any(isinstance(node, If) for node in walk(nests[0]))
    assert all(node in list(walk(nests[0])) for node in nests[1:])
    posts = [k for k, node in enumerate(order) if isinstance(node, Post)]
    waits = [k for k, node in enumerate(order) if isinstance(node, Complete)]
    assert max(posts) < order.index(nests[0]) < min(waits)


def computes(node: Node, name: str) -> bool:
    return any(isinstance(inner, Store) and inner.statement == name for inner in walk(node))


def messages_in(node: Node) -> bool:
    return any(isinstance(inner, Post | Complete) for inner in walk(node))


def test_rows_at_the_ends_of_columns_are_boundary_too() -> None:
    f = heat(4, 8)
    f.derive_transfers(overlap=True)
    inside = sets.points(sets.fixed(f.program.statements["u_interior"].instances, {"T": 1, "C": 3}))
    assert {(row, column) for step, row, column in inside if step == 1} == {
        (row, column) for row in range(32) if row % 8 not in (0, 7) for column in range(3)
    }


def test_deep_halos_overlap() -> None:
    f = heat(4, 8)
    f.derive_transfers(overlap=True, depth={t: 4})
    assert f.check().ok
    assert len(f.program.statements["u_interior"].instances.coalesce().get_basic_sets()) == 1


def test_no_proof_is_asked_what_may_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is derived does not depend on how far a proof comes within its budget."""
    f, limited = heat(4, 8), heat(4, 8)
    f.derive_transfers(overlap=True)

    def refuse(*_: object) -> Report:
        raise AssertionError("derive_transfers asks for a proof")

    monkeypatch.setattr(theorem._Check, "report", refuse)
    limited.derive_transfers(overlap=True)
    assert limited.show("pseudocode") == f.show("pseudocode")


def test_work_that_needs_its_own_boundary_first_stays_whole() -> None:
    f = tm.Function("chain_of_columns", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [4, C])
    s = f.computation(
        "s", {r: 3, c: C}, lambda s: tm.select(c < 1, a[r + 1, c], tm.select(c >= 1, s[r, c - 1] + a[r, c], 0.0))
    )
    f.outputs(s)
    for array in (a, s):
        array.distribute_array([r, c], rank=r)
    s.tag_distribute(r)
    f.derive_transfers(overlap=True)
    assert [name for name in f.program.statements if name.startswith("s")] == ["s"]
    assert of_kind(f.program, "_wait")
    report = f.check()
    assert report.ok, report


@pytest.mark.parametrize(
    "how", [{}, {"ordered": True}, {"determinism": "ordered"}, {"determinism": "everywhere"}], ids=str
)
def test_terms_that_need_no_message_come_first_unless_their_order_is_fixed(how: dict[str, Any]) -> None:
    f = tm.Function("weighted")
    k = tm.Iter("k")
    x, w = f.input("x", tm.float32, [16]), f.input("w", tm.float32, [3])
    y = f.reduction("y", {r: 16}, {k: 3}, tm.sum, tm.select(r - k < 14, w[k] * x[r + 2 - k], 0.0), **how)
    f.outputs(y)
    for array in (x, y):
        array.distribute_array([r], rank=r // 4)
    y.split(r, 4, q, r1)
    y.update.reorder(q, k, r1)
    y.tag_distribute(q)
    f.derive_transfers(overlap=True)
    assert bool(of_kind(f.program, "_interior")) != (how in ({"ordered": True}, {"determinism": "ordered"}))
    report = f.check()
    assert report.ok, report


def test_tiles_of_an_instruction_stay_whole() -> None:
    """Of two tiles of 16 rows on each rank, one reads a row of another rank: all of it is boundary."""
    i, j, k, i1, i2, i3 = tm.iters("i j k i1 i2 i3")
    f = tm.Function("tiles")
    given, panels = f.input("given", tm.uint8, [129, 64]), f.input("panels", tm.int8, [16, 16, 4])
    a = f.computation("a", {i: 129, k: 64}, given[i, k] ^ 1)
    term = tm.cast(tm.int32, a[i + 1, k]) * tm.cast(tm.int32, panels[k // 4, j, k % 4])
    product = f.reduction("product", {i: 128, j: 16}, {k: 64}, tm.sum, term)
    f.outputs(product)
    for each in (a, product):
        each.split(i, 32, q, i1)
    for part in (a, product.init, product.update):
        part.tag_distribute(q)
    product.update.split(i1, 16, i2, i3).reorder(q, i2, i3, j, k).tensorize(i3, j, k, "amx")
    f.derive_transfers(overlap=True)
    tiles = 4 * 16 * 16 * 64
    for part in ("interior", "boundary"):
        instances = sets.plain(f.program.statements[f"product_update_{part}"].instances)
        assert instances.count_val().to_python() == tiles
    report = f.check()
    assert report.ok, report
