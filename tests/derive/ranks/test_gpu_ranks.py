"""Ranks that drive GPUs: each moves its own part to and from its GPU, and messages go through the host's memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.ranks.gpu_ranks import blur_on_gpus, heat_on_gpus
from tiramisu_py import sets
from tiramisu_py.program.ranks.spread import spread


def moved(f: tm.Function, **params: int) -> dict[tuple[str, str], set[tuple[int, tuple[int, ...]]]]:
    """What each rank moves from one device to another, by source and direction: the rank, with indices."""
    found: dict[tuple[str, str], set[tuple[int, tuple[int, ...]]]] = {}
    program = spread(f.program)
    for statement in program.acting:
        if statement.link.transfer is None:
            continue
        key = statement.source, "to gpu" if statement.link.transfer.source is None else "to cpu"
        forms = sets.joined(program.rank_of(statement), statement.point)
        instances = statement.instances.intersect_params(program.context.params())
        for rank, *indices in sets.points(sets.fixed(sets.as_set(sets.graph(forms, instances).range()), params)):
            found.setdefault(key, set()).add((rank, tuple(indices)))
    return found


def check_simulated(f: tm.Function, **given: object) -> None:
    report = f.check()
    assert report.ok, report
    for seed in range(3):
        np.testing.assert_array_equal(f.simulate(seed=seed, **given), f.evaluate(**given))


@pytest.mark.parametrize(("ranks", "block"), [(2, 8), (3, 4)])
def test_a_rank_moves_what_it_computes_and_what_others_need(ranks: int, block: int) -> None:
    f = blur_on_gpus(ranks, block)
    f.derive_transfers()
    rows = {n: range(n * block, n * block + block) for n in range(ranks)}
    found = moved(f, C=1)
    assert found["image", "to gpu"] == {(n, (x, y)) for n in rows for x in rows[n] for y in range(3)}
    last = ranks * block - 1
    assert found["by", "to cpu"] == {(n, (x, 0)) for n in rows for x in rows[n] if 0 < x < last}
    sent = {(n, x) for n in rows for x in (rows[n][0], rows[n][-1]) if 0 < x < last}
    assert found["bx", "to cpu"] == {(n, (x, 0)) for n, x in sent}
    received = {(n, x) for n in rows for x in (rows[n][0] - 1, rows[n][-1] + 1) if 0 <= x <= last}
    assert found["bx", "to gpu"] == {(n, (x, 0)) for n, x in received}
    assert f.cost("communication", C=1).transfers
    check_simulated(f, image=np.random.default_rng(0).random((ranks * block, 22), dtype=np.float32), C=20)


@pytest.mark.parametrize("on_gpu", [("bx",), ("by",)])
def test_messages_between_the_host_and_gpus(on_gpu: tuple[str, ...]) -> None:
    """What a GPU computed and the host of another rank reads; and the other way round."""
    f = blur_on_gpus(3, 4, on_gpu)
    f.derive_transfers()
    found = moved(f, C=1)
    whole = {(n, (x, 0)) for n in range(3) for x in range(4 * n, 4 * n + 4)}
    if on_gpu == ("bx",):
        assert found["bx", "to cpu"] == whole
    else:
        assert whole < found["bx", "to gpu"]
        assert len(found["bx", "to gpu"]) == 12 + 4
    check_simulated(f, image=np.random.default_rng(0).random((12, 7), dtype=np.float32), C=5)


def test_in_a_time_loop_only_halos_move() -> None:
    f = heat_on_gpus(3, 4)
    f.derive_transfers()
    found = moved(f, T=2, C=3)
    assert {indices for _, indices in found["u", "to cpu"]} == {(s, x, 1) for s in range(2) for x in (3, 4, 7, 8)}
    assert found["u", "to gpu"] == {(n, (s, x, 1)) for s in range(2) for n, x in ((0, 4), (1, 3), (1, 8), (2, 7))}
    check_simulated(f, u0=np.random.default_rng(0).random((12, 5), dtype=np.float32), T=3, C=5)


@pytest.mark.parametrize("made", [blur_on_gpus, heat_on_gpus])
def test_they_are_derived_anew(made: Callable[[], tm.Function]) -> None:
    f = made()
    f.derive_transfers()
    names = sorted(f.program.statements)
    f.derive_transfers()
    assert sorted(f.program.statements) == names
    assert f.check().ok


@pytest.mark.parametrize("made", [lambda: blur_on_gpus(3, 4), heat_on_gpus])
def test_they_can_be_printed_as_commands(made: Callable[[], tm.Function]) -> None:
    f, again = made(), made()
    f.derive_transfers()
    text = f.derived()
    exec(text if isinstance(text, str) else "\n".join(text), {"f": again, "tm": tm})
    assert again.check().ok, again.check()
    params = dict.fromkeys(f.algorithm.params, 5)
    assert str(again.cost("communication", **params)) == str(f.cost("communication", **params))


@pytest.mark.parametrize("overlap", [False, True])
def test_a_rank_whose_results_nobody_needs_waits_for_them_all_the_same(overlap: bool) -> None:
    (R,), (r,) = tm.params("R"), tm.iters("r")
    f = tm.Function("unneeded", params=[R], assume="R >= 1")
    a = f.input("a", tm.int32, [R + 4])
    p = f.computation("p", {r: R + 2}, a[r + 1] + 2 * a[r])
    q = f.computation("q", {r: R}, p[r + 2])
    f.outputs(q)
    for stage in (p, q):
        stage.partition(r, [2], [tm.gpu(tile=2, ranks=range(2)), tm.cores(ranks=2)])
    for array in (a, q):
        array.distribute_array([r], rank=0)
    f.derive_transfers(overlap=overlap)
    for rows in (1, 5):
        check_simulated(f, a=np.arange(rows + 4, dtype=np.int32) ** 2)
