"""Deep halos: exchanges every few steps, of more rows, which neighbours compute again."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.oracle.judges.rank_arrays import run_on_ranks
from tests.programs.ranks.derived import T, heat, heat_on_grid, i, i1, moved, q, t
from tiramisu_py import sets
from tiramisu_py.errors import CommandError
from tiramisu_py.lower import lower
from tiramisu_py.program.statement import Role


def agrees(f: tm.Function, **given: object) -> None:
    """Ranks compute what `evaluate()` says, whatever the order of messages."""
    names = f.program.algorithm.params
    expected = f.evaluate(**given)
    arrays = {name: value for name, value in given.items() if name not in names}
    params = {name: int(value) for name, value in given.items() if name in names}  # type: ignore[call-overload]
    function = lower(f.completed)
    for seed in range(2):
        np.testing.assert_array_equal(run_on_ranks(f, None, seed, function=function, **arrays, **params), expected)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_messages_come_every_few_steps(depth: int) -> None:
    f = heat(4, 8)
    f.derive_transfers(depth={t: depth})
    report = f.check()
    assert report.ok, report
    steps = 10
    found = f.cost("communication", T=steps, C=8)
    in_time = found.messages - sum(m.messages for m in found.transfers if m.name.startswith("u0_"))
    assert in_time == 6 * sum(1 for step in range(1, steps + 1) if step % depth == 0)


def test_a_rank_sends_as_many_rows_as_the_steps_it_saves() -> None:
    f = heat(4, 8)
    f.derive_transfers(depth={t: 4})
    rows: dict[int, set[int]] = {}
    for element in moved(f, Role.SEND, T=9, C=20):
        if element.value[0] == "u" and element.sender == (0,):
            rows.setdefault(element.value[1][0], set()).add(element.value[1][1])
    assert rows == {3: {4, 5, 6, 7}, 7: {4, 5, 6, 7}}  # as wide for the last steps, though they are only two


def test_steps_in_between_read_only_what_the_rank_has() -> None:
    f = heat(3, 6)
    f.derive_transfers(depth={t: 4})
    instances = sets.fixed(f.program.statements["u"].instances, {"T": 7, "C": 6})
    own = {(rank, step, x) for step, x, _, rank in sets.points(instances)}
    assert {x for rank, step, x in own if rank == 1 and step == 7} == set(range(6, 12))
    assert {x for rank, step, x in own if rank == 1 and step == 5} == set(range(4, 14))
    assert f.cost("communication", T=7, C=6).messages == 2 * 4  # of u0 before the loop, and of u in step 4


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_what_moves_has_a_closed_form(depth: int) -> None:
    f, columns = heat(4, 8), 6
    f.derive_transfers(depth={t: depth})
    for last in (3, 8, 9):
        elements = (depth - 1) * columns  # of u0
        elements += last // depth * (depth * columns - 2)  # the outermost row is read inside of the plate only
        assert f.cost("communication", T=last, C=columns).elements == 6 * elements


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_deep_halos_on_a_grid_have_corners(depth: int) -> None:
    f, block, last = heat_on_grid((2, 2), 8), 8, 9
    f.derive_transfers(depth={t: depth})
    report = f.check()
    assert report.ok, report
    assert any(name.startswith("u_to_1_1") for name in f.program.statements) == (depth > 1)
    found = f.cost("communication", T=last, C=3)
    assert found.messages == (12 if depth > 1 else 8) * (last // depth) + (12 if depth > 1 else 0)
    wide = block + depth - 1
    around = wide * wide - block * block
    assert found.elements == 4 * (last // depth * (around + 2 * (wide - 1)) + around)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_ranks_compute_what_they_should(depth: int) -> None:
    f = heat(3, 4)
    f.derive_transfers(depth={t: depth})
    agrees(f, u0=np.random.default_rng(1).random((12, 4), dtype=np.float32), T=6, C=4)


@pytest.mark.parametrize("depth", [2, 4])
def test_ranks_on_a_grid_compute_what_they_should(depth: int) -> None:
    f = heat_on_grid((2, 2), 4)
    f.derive_transfers(depth={t: depth})
    agrees(f, u0=np.random.default_rng(1).random((8, 8), dtype=np.float32), T=5, C=3)


@pytest.mark.parametrize("depth", [2, 5])
def test_blocks_are_wider_by_a_step_for_each_that_is_to_come(depth: int) -> None:
    """They are convex, whatever is not needed at their corners: loops have no guards, and the proof is quick."""
    for f in (heat(4, 8), heat_on_grid((2, 2), 8)):
        f.derive_transfers(depth={t: depth})
        assert len(f.program.statements["u"].instances.coalesce().get_basic_sets()) == 1


def test_a_halo_may_be_deeper_than_a_block() -> None:
    f = heat(4, 3)
    f.derive_transfers(depth={t: 5})
    assert f.check().ok
    assert "u_to_plus2_send" in f.program.statements
    agrees(f, u0=np.random.default_rng(1).random((12, 4), dtype=np.float32), T=6, C=4)


@pytest.mark.parametrize(("reads", "slabs"), [
    ([(-1, -2), (-1, 1)], True),
    ([(-1, 0), (-2, 3)], True),
    ([(-1, None)], False),
])  # fmt: skip
def test_other_reaches(reads: list[tuple[int, int | None]], slabs: bool) -> None:
    """Further on one side, over two steps; and mirrored, which no constant distance describes."""
    n, k = 24, 3
    f = tm.Function("reaches", params=[T], assume="T >= 1")
    a = f.input("a", tm.int64, [n])

    def step(u: tm.Computation) -> tm.Expr:
        total: tm.Expr = tm.cast(tm.int64, 1)
        for back, by in reads:
            total = total + u[t + back, n - 1 - i if by is None else i + by]
        return tm.select((t < 2) | (i < 3) | (i >= n - 3), a[i] + t, total)

    u = f.computation("u", {t: T + 1, i: n}, step)
    f.outputs(u[T, i])
    for name in ("u", "u_out"):
        f[name].split(i, 6, q, i1)
        f[name].tag_distribute(q)
    for name in ("a", "u_out"):
        f[name].distribute_array([i], rank=i // 6)
    f.derive_transfers(depth={t: k})
    assert f.check().ok, f.check()
    assert (len(f.program.statements["u"].instances.coalesce().get_basic_sets()) == 1) == slabs
    agrees(f, a=np.arange(n), T=7)


def test_values_are_exchanged_deep_and_derived_anew() -> None:
    f = heat(3, 6)
    f.derive_transfers(depth={t: 2})
    before = f.cost("communication", T=6, C=5)
    f.derive_transfers()
    assert str(f.cost("communication", T=6, C=5)) == str(before)
    f.derive_transfers(depth={t: 2})
    assert str(f.cost("communication", T=6, C=5)) == str(before)


def test_loops_that_are_not_there_are_refused() -> None:
    f = heat(3, 6)
    with pytest.raises(CommandError, match="no loop j1"):
        f.derive_transfers(depth={tm.iters("j1 j2")[0]: 2})
    with pytest.raises(CommandError, match="give a dict"):
        f.derive_transfers(depth=4)  # type: ignore[arg-type]
    with pytest.raises(CommandError, match="depth is 0"):
        f.derive_transfers(depth={t: 0})


def test_blocks_of_one_iteration_have_room_for_more() -> None:
    (N,) = tm.params("N")
    i, q, x = tm.iters("i q x")
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.int64, [N])
    inside = (t == 0) | (i < 2) | (i >= N - 1)
    u = f.computation("u", {t: 3, i: N}, lambda u: tm.select(inside, a[i], u[t - 1, i - 2] + u[t - 1, i + 1]))
    f.outputs(u[2, i])
    for stage in (u, f["u_out"]):
        stage.split(i, 1, q, x)
        stage.tag_distribute(q)
    for array in (a, f["u_out"]):
        array.distribute_array([i], rank=i // 1)
    f.derive_transfers(depth={t: 2})
    assert f.check().ok
    numbers = np.arange(9)
    np.testing.assert_array_equal(f.simulate(a=numbers, N=9), f.evaluate(a=numbers, N=9))
