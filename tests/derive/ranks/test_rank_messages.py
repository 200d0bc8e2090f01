"""Derived messages: each rank receives what it reads and has not, once, from the nearest that has it; and is proven."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tiramisu_py as tm
from tests.programs.ranks.derived import (
    C,
    Element,
    Rank,
    Value,
    blur,
    c,
    exchanges,
    heat,
    heat_on_grid,
    i,
    i1,
    j,
    j1,
    moved,
    q,
    q2,
    r,
    r1,
    t,
)
from tiramisu_py.program.loops import Bulk
from tiramisu_py.program.statement import Role

#: What each rank reads, and what it computes or is passed.
Sets = dict[Rank, set[Value]]


def expected(read: Sets, own: Sets, apart: Callable[[Rank, Rank], int]) -> set[Element]:
    """Need minus own on each rank, from the nearest owner (the one before, of two), listed element by element."""
    found = set()
    for rank, values in read.items():
        for value in values - own[rank]:
            owners = [other for other in own if value in own[other]]
            nearest = min(
                (apart(other, rank), [b - a for a, b in zip(other, rank, strict=True)], other) for other in owners
            )
            found.add(Element(nearest[2], rank, value))
    return found


def steps(a: Rank, b: Rank) -> int:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True))


def check_exchanged(f: tm.Function, wanted: set[Element], **params: int) -> None:
    """The messages move these elements, each once, at both ends; and the program is proven."""
    assert wanted
    for role in (Role.SEND, Role.COPY):
        found = moved(f, role, **params)
        assert set(found) == wanted
        assert set(found.values()) == {1}
    report = f.check()
    assert report.ok, report


@pytest.mark.parametrize(("ranks", "block", "reach"), [(4, 25, 1), (3, 4, 2), (4, 3, 4), (6, 2, 5), (2, 3, 1)])
def test_the_rows_that_are_missing_are_exchanged(ranks: int, block: int, reach: int) -> None:
    f = blur(ranks, block, reach)
    assert [v.kind for v in f.check().violations] == ["communication"]
    f.derive_transfers()
    width, rows = 2, ranks * block
    own = {
        (n,): {("bx", (x, y)) for x in range(n * block, n * block + block) for y in range(width)} for n in range(ranks)
    }
    read = {
        (n,): {
            ("bx", (x + apart, y))
            for x in range(n * block, n * block + block)
            if reach <= x < rows - reach
            for apart in range(-reach, reach + 1)
            for y in range(width)
        }
        for n in range(ranks)
    }
    check_exchanged(f, expected(read, own, steps), C=width)


def test_neighbours_and_those_further_off_have_names() -> None:
    near, far, grid, diagonal = blur(), blur(4, 3, 4), heat_on_grid(), heat_on_grid(corners=True)
    for f in (near, far, grid, diagonal):
        f.derive_transfers()
    assert exchanges(near) == ["bx_to_next", "bx_to_previous"]
    assert exchanges(far) == ["bx_to_minus2", "bx_to_next", "bx_to_plus2", "bx_to_previous"]
    assert exchanges(grid) == ["u_to_0_1", "u_to_0_minus1", "u_to_1_0", "u_to_minus1_0"]
    assert exchanges(diagonal) == [*exchanges(grid)[:2], "u_to_1_0", "u_to_1_1", "u_to_minus1_0", "u_to_minus1_minus1"]


def test_there_is_one_message_for_a_neighbour() -> None:
    f = blur()
    f.derive_transfers()
    assert f.cost("communication", C=201).messages == 2 * 3
    assert all(isinstance(f.program.loops[s.loops[-1]].tag, Bulk) for s in f.program.acting if s.link.message)


def plate(ranks: list[Rank], tile: Callable[[Rank], tuple[range, range]], shape: tuple[int, int], last: int,
          around: list[tuple[int, int]]) -> tuple[Sets, Sets]:  # fmt: skip
    """What ranks read, and what they compute, of the plate in `last` steps."""
    rows, columns = shape
    read: Sets = {rank: set() for rank in ranks}
    own: Sets = {rank: set() for rank in ranks}
    for rank in ranks:
        for step in range(last + 1):
            for x in tile(rank)[0]:
                for y in tile(rank)[1]:
                    own[rank].add(("u", (step, x, y)))
                    inside = 1 <= x < rows - 1 and 1 <= y < columns - 1
                    for dx, dy in (around if inside else [(0, 0)]) if step else []:
                        read[rank].add(("u", (step - 1, x + dx, y + dy)))
    return read, own


CROSS = [(-1, 0), (1, 0), (0, -1), (0, 1)]


def test_in_a_time_loop_each_step_has_its_messages() -> None:
    f = heat(3, 4)
    f.derive_transfers()
    ranks = [(n,) for n in range(3)]
    read, own = plate(ranks, lambda at: (range(4 * at[0], 4 * at[0] + 4), range(5)), (12, 5), 3, CROSS)
    check_exchanged(f, expected(read, own, steps), T=3, C=5)
    assert f.cost("communication", T=3, C=5).messages == 3 * 2 * 2
    send = f.program.statements["u_to_next_send"]
    assert send.loops[0] == f.program.statements["u"].loops[0]


@pytest.mark.parametrize("corners", [False, True])
def test_on_a_grid_corners_are_messages_of_their_own(corners: bool) -> None:
    f = heat_on_grid((2, 3), 3, corners)
    f.derive_transfers()
    ranks = [(a, b) for a in range(2) for b in range(3)]
    around = [*CROSS, (-1, -1), (1, 1)] if corners else CROSS
    read, own = plate(ranks, lambda at: tuple(range(3 * x, 3 * x + 3) for x in at), (6, 9), 2, around)  # type: ignore[arg-type, return-value]
    check_exchanged(f, expected(read, own, steps), T=2, C=3)


def test_a_loop_over_ranks_may_be_outside_of_time() -> None:
    f, g = heat(3, 4), heat(3, 4)
    g["u"].interchange(t, q)
    for each in (f, g):
        each.derive_transfers()
    assert [g.program.loops[loop].name for loop in g.program.statements["u_to_next_send"].loops][:2] == ["q", "t"]
    assert moved(g, Role.SEND, T=3, C=5) == moved(f, Role.SEND, T=3, C=5)
    assert g.check().ok


# -- the caller's arrays


def scaled(distribute: object, result: object, block: int = 3, ranks: int = 4) -> tm.Function:
    """One stage in blocks, of arrays that are held in other ways."""
    n = block * ranks
    f = tm.Function("scaled", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [n, C])
    b = f.computation("b", {r: n, c: C}, 2 * a[r, c])
    f.outputs(b)
    b.split(r, block, q, r1)
    b.tag_distribute(q)
    a.distribute_array([r, c], rank=distribute)
    if result is not None:
        b.distribute_array([r, c], rank=result)
    return f


def scaled_sets(held: Callable[[int], list[int]], block: int = 3, ranks: int = 4) -> tuple[Sets, Sets, Sets, Sets]:
    """For the input and for the output: what ranks read, and have."""
    everyone = [(n,) for n in range(ranks)]
    rows = range(block * ranks)
    computed = {(n,): set(range(n * block, n * block + block)) for (n,) in everyone}
    a_read = {rank: {("a", (x, 0)) for x in computed[rank]} for rank in everyone}
    a_own = {(n,): {("a", (x, 0)) for x in rows if n in held(x)} for (n,) in everyone}
    b_read = {(n,): {("b", (x, 0)) for x in rows if n in held(x)} for (n,) in everyone}
    b_own = {rank: {("b", (x, 0)) for x in computed[rank]} for rank in everyone}
    return a_read, a_own, b_read, b_own


HELD = [
    ("cyclic", (r // 2) % 4, lambda x: [x // 2 % 4]),
    ("dealt one by one", (r // 1) % 4, lambda x: [x % 4]),
    ("on rank 0", 0, lambda x: [0]),
    ("on rank 2", 2, lambda x: [2]),
    ("in other blocks", r // 6, lambda x: [x // 6]),
]


@pytest.mark.parametrize(("name", "rank", "held"), HELD, ids=[name for name, _, _ in HELD])
def test_inputs_come_from_who_holds_them_and_outputs_go_there(
    name: str, rank: object, held: Callable[[int], list[int]]
) -> None:
    f = scaled(rank, rank)
    f.derive_transfers()
    a_read, a_own, b_read, b_own = scaled_sets(held)
    check_exchanged(f, expected(a_read, a_own, steps) | expected(b_read, b_own, steps), C=1)


def test_an_output_that_every_rank_must_have_is_gathered_by_all() -> None:
    f = scaled(r // 3, None)
    f.derive_transfers()
    _, _, b_read, b_own = scaled_sets(lambda x: [0, 1, 2, 3])
    check_exchanged(f, expected(b_read, b_own, steps), C=1)
    assert exchanges(f) == ["b_to_ranks"]
    assert f.cost("communication", C=1).messages == 4 * 3


def test_a_value_that_all_ranks_read_is_broadcast() -> None:
    f = tm.Function("broadcast", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [8, C])
    mean = f.computation("mean", {c: C}, a[0, c] + a[1, c])
    b = f.computation("b", {r: 8, c: C}, a[r, c] - mean[c])
    f.outputs(b)
    for array in (a, b):
        array.distribute_array([r, c], rank=r // 2)
    b.split(r, 2, q, r1)
    b.tag_distribute(q)
    f.derive_transfers()  # every rank computes the mean: it needs two rows of rank 0
    everyone = [(n,) for n in range(4)]
    read = {rank: {("a", (x, 0)) for x in (0, 1)} for rank in everyone}
    own = {(n,): {("a", (x, 0)) for x in (2 * n, 2 * n + 1)} for n in range(4)}
    check_exchanged(f, expected(read, own, steps), C=1)


def test_the_nearest_of_several_owners_sends() -> None:
    f = tm.Function("corner", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [8, C])
    b = f.computation("b", {i: 4, j: 2, c: C}, a[2 * i, c] + a[2 * i + 1, c])
    f.outputs(b)
    b.tag_distribute(i, j)
    a.distribute_array([r, c], rank=(r // 4, None))  # rows 0 to 3 on ranks (0, 0) and (0, 1)
    f.derive_transfers()
    found = [e for e in moved(f, Role.SEND, C=1) if e.value[0] == "a"]
    assert len(found) == 3 * 2 * 2  # on a grid of 4 x 2, ranks (1, *), (2, *) and (3, *) lack both of their rows
    assert all(e.sender[1] == e.receiver[1] for e in found)
    assert f.check().ok


# -- together with what the user writes


def test_values_that_the_user_sends_are_not_sent_again() -> None:
    f = blur(3, 4)
    down = f.create_exchange(
        f["bx"][r, c], send={q: (0, 2), r: (q * 4 + 3, q * 4 + 4), c: C}, to=q + 1,
        recv={q: (1, 3), r: (q * 4 - 1, q * 4), c: C}, source=q - 1, name="down",
    )  # fmt: skip
    f.order(f["bx"], down.send, down.recv, f["by"], at=tm.root)
    f.derive_transfers()
    assert exchanges(f) == ["bx_to_previous", "down"]
    assert f.check().ok


def test_what_is_derived_again_is_the_same() -> None:
    f = heat()
    f.derive_transfers()
    before, names = f.cost("communication", T=4, C=6), list(f.program.statements)
    f.derive_transfers()
    assert str(f.cost("communication", T=4, C=6)) == str(before)
    assert sorted(f.program.statements) == sorted(names)
    f["u"].vectorize(j, 4)
    f.derive_transfers()
    assert f.check().ok


def test_nothing_is_sent_where_nothing_is_missing() -> None:
    f = tm.Function("alone", params=[C])
    a = f.input("a", tm.float32, [8, C])
    b = f.computation("b", {r: 8, c: C}, 2 * a[r, c])
    f.outputs(b)
    for array in (a, b):
        array.distribute_array([r, c], rank=r // 2)
    b.split(r, 2, q, r1)
    b.tag_distribute(q)
    f.derive_transfers()
    assert list(f.program.statements) == ["b"]
    assert f.cost("communication", C=3).messages == 0
    assert f.check().ok


def test_what_cannot_be_exchanged_is_refused_by_the_proof() -> None:
    f = tm.Function("chain", params=[C], assume="C >= 1")
    a = f.input("a", tm.float32, [8, C])
    s = f.computation("s", {r: 8, c: C}, lambda s: tm.select(r < 1, a[r, c], s[r - 1, c] + a[r, c]))
    f.outputs(s)
    for array in (a, s):
        array.distribute_array([r, c], rank=r // 2)
    s.split(r, 2, q, r1)
    s.tag_distribute(q)
    f.derive_transfers()  # rank 1 goes on where rank 0 ends: no message inside of the loop r1 is early enough
    assert f.check().violations[0].kind == "communication"


def test_fused_stages_exchange_inside_of_the_loop_over_ranks() -> None:
    f = blur(3, 4)
    f["by"].after(f["bx"], q)
    f.derive_transfers()
    loop = f.program.statements["bx"].loops[0]
    assert all(s.loops[0] == loop for s in f.program.statements.values())
    assert f.check().ok


def test_grids_of_tiles_take_rows_and_columns_for_matrix_products() -> None:
    n, p = 6, 2
    f = tm.Function("matmul")
    (k,) = tm.iters("k")
    a = f.input("a", tm.float32, [n, n])
    b = f.input("b", tm.float32, [n, n])
    m = f.reduction("m", {i: n, j: n}, {k: n}, tm.sum, a[i, k] * b[k, j])
    f.outputs(m)
    for array in (a, b, m):
        array.distribute_array([i, j], rank=(i // 3, j // 3))
    m.split(i, 3, q, i1)
    m.split(j, 3, q2, j1)
    m.interchange(i1, q2)
    m.tag_distribute(q, q2)
    f.derive_transfers()
    found = moved(f, Role.COPY)
    assert {e.value[0] for e in found} == {"a", "b"}
    wanted = p * p * 2 * 9  # each rank lacks one tile of either
    assert len(found) == wanted == f.cost("communication").elements
    assert f.check().ok, f.check()
