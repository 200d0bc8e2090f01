"""Messages under way while the interior is computed."""

from __future__ import annotations

import tiramisu_py as tm
from tests.derive.rank_stories import C, blur, c, heat, heat_on_grid, moved, q, r, r1
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role


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
    before = f.communication(T=3, C=5)
    f.derive_transfers(overlap=True)
    check_overlaps(f, 1)
    assert f.communication(T=3, C=5).elements == before.elements
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
        array.distribute([r, c], rank=r // 3)
    s.split(r, 3, q, r1)
    s.interchange(r1, c)
    s.tag_distribute(q)
    f.derive_transfers(overlap=True)
    report = f.check()
    assert report.ok, report
    assert of_kind(f.program, "_wait")
