"""Which exchanges are derived as calls of all ranks: to all, from all, and from all to all; halos are not."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.ranks.collectives import gathered, panels, q, r, r1, transposed
from tiramisu_py.program.ranks.collective_exchanges import collectives


@pytest.mark.parametrize("make", [transposed, gathered])
@pytest.mark.parametrize("ranks", [3, 4])
def test_all_to_all_and_allgather(make, ranks: int) -> None:  # type: ignore[no-untyped-def]
    f, _, _ = make(ranks)
    f.derive_transfers(collectives=True)
    assert [one.name for one in collectives(f.program)] == ["b_to_ranks"]
    assert f.check().ok
    assert f.cost("communication").messages == ranks * (ranks - 1)


def test_two_ranks_are_neighbours() -> None:
    f, _, _ = gathered(2)
    f.derive_transfers(collectives=True)
    assert not collectives(f.program)
    assert f.check().ok


def test_not_where_nobody_asked() -> None:
    f, _, _ = gathered()
    f.derive_transfers()
    assert not collectives(f.program)


def test_what_was_derived_is_written_as_commands_that_make_the_same() -> None:
    f, _, _ = gathered()
    f.derive_transfers(collectives=True)
    g, _, _ = gathered()
    exec("\n".join(f.derived()), {"f": g, "tm": tm})
    assert g.check().ok
    assert g.show("pseudocode") == f.show("pseudocode")


def test_a_halo_stays_messages() -> None:
    f = tm.Function("halo", params=[])
    a = f.input("a", tm.float32, [12])
    b = f.computation("b", {r: 12}, a[r] * 2)
    d = f.computation("d", {r: 11}, b[r] + b[r + 1])
    f.outputs(d)
    a.distribute_array([r], rank=r // 3)
    d.distribute_array([r], rank=r // 3)
    for stage in (b, d):
        stage.split(r, 3, q, r1)
        stage.tag_distribute(q)
    f.derive_transfers(collectives=True)
    assert not collectives(f.program)
    assert f.check().ok


def test_panels_are_derived_as_calls_or_messages_that_are_right() -> None:
    f, _, _ = panels(4)
    f.derive_transfers(collectives=True)
    assert f.check().ok
    a = np.random.default_rng(0).random((4, 4), dtype=np.float32)
    np.testing.assert_array_equal(f.simulate(a=a, seed=1), f.evaluate(a=a))
