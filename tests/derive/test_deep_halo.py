"""Deep halos: exchanges every few steps, of more rows, which neighbours compute again."""

from __future__ import annotations

import pytest

import tiramisu_py as tm
from tests.derive.rank_stories import heat, heat_on_grid, moved, t
from tiramisu_py import sets
from tiramisu_py.errors import CommandError
from tiramisu_py.program.statement import Role


@pytest.mark.parametrize("depth", [1, 2])
def test_messages_come_every_few_steps(depth: int) -> None:
    f = heat(4, 8)
    f.derive_transfers(depth={t: depth})
    report = f.check()
    assert report.ok, report
    steps = 10
    found = f.communication(T=steps, C=8)
    in_time = found.messages - sum(m.messages for m in found.transfers if m.name.startswith("u0_"))
    assert in_time == 6 * sum(1 for step in range(1, steps + 1) if step % depth == 0)


def test_a_rank_sends_as_many_rows_as_the_steps_it_saves() -> None:
    f = heat(4, 8)
    f.derive_transfers(depth={t: 4})
    rows: dict[int, set[int]] = {}
    for element in moved(f, Role.SEND, T=9, C=20):
        if element.value[0] == "u" and element.sender == (0,):
            rows.setdefault(element.value[1][0], set()).add(element.value[1][1])
    assert rows == {3: {4, 5, 6, 7}, 7: {6, 7}}


def test_steps_in_between_read_only_what_the_rank_has() -> None:
    f = heat(3, 6)
    f.derive_transfers(depth={t: 4})
    instances = sets.fixed(f.program.statements["u"].instances, {"T": 7, "C": 6})
    own = {(rank, step, x) for step, x, _, rank in sets.points(instances)}
    assert {x for rank, step, x in own if rank == 1 and step == 7} == set(range(6, 12))
    assert {x for rank, step, x in own if rank == 1 and step == 5} == set(range(4, 14))
    assert f.communication(T=7, C=6).messages == 2 * 4  # of u0 before the loop, and of u in step 4


def test_deep_halos_on_a_grid_have_corners() -> None:
    f = heat_on_grid((2, 2), 4)
    f.derive_transfers(depth={t: 2})
    report = f.check()
    assert report.ok, report
    assert any(name.startswith("u_to_1_1") for name in f.program.statements)


def test_values_are_exchanged_deep_and_derived_anew() -> None:
    f = heat(3, 6)
    f.derive_transfers(depth={t: 2})
    before = f.communication(T=6, C=5)
    f.derive_transfers()
    assert str(f.communication(T=6, C=5)) == str(before)
    f.derive_transfers(depth={t: 2})
    assert str(f.communication(T=6, C=5)) == str(before)


def test_loops_that_are_not_there_are_refused() -> None:
    f = heat(3, 6)
    with pytest.raises(CommandError, match="no loop j1"):
        f.derive_transfers(depth={tm.iters("j1 j2")[0]: 2})
    with pytest.raises(CommandError, match="give a dict"):
        f.derive_transfers(depth=4)  # type: ignore[arg-type]
    with pytest.raises(CommandError, match="depth is 0"):
        f.derive_transfers(depth={t: 0})
