"""Verdicts on random GPU programs against a plain graph of events: accepted ones are right at all small sizes, refused
ones are wrong at their counterexample.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs.gpu.stories import K, M, N, R, blur_by_hand, c, c0, c1, i, j, k, r, tiled_stencil
from tests.proof.kernels.gpu_oracle import Judge
from tiramisu_py.derive.barriers.barriers import with_barriers
from tiramisu_py.errors import CommandError
from tiramisu_py.program.editing import removed
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.proof import check


def agrees(program: Program, sizes: list[dict[str, int]]) -> bool:
    """Whether the proof's verdict is the judge's; returns whether the program is accepted."""
    report = check(program)
    if report.ok:
        for at in sizes:
            judge = Judge(program, at)
            assert judge.accepts(), (at, judge.races()[:1], judge.unfinished()[:1], judge.wrong_reads()[:3])
        return True
    for violation in report.violations:
        if violation.witness.params or not program.algorithm.params:
            assert not Judge(program, dict(violation.witness.params)).accepts(), str(violation)
    return False


def _here(at_gpu: dict[str, bool]) -> list[str]:
    """The computations that the host computes."""
    return [name for name, there in at_gpu.items() if not there]


def pipeline(rng: random.Random) -> Program:
    """p[r, c] = a[r, c] + a[r, c + 1] and q[r, c] = p[r - 1, c] + p[r, c], each here or there, with random waits."""
    f = tm.Function("drawn", params=[R], assume="R >= 1")
    a = f.input("a", tm.float32, [R + 1, 4])
    p = f.computation("p", {r: R + 1, c: 3}, a[r, c] + a[r, c + 1])
    q = f.computation("q", {r: (1, R + 1), c: 3}, p[r - 1, c] + p[r, c])
    f.outputs(q)
    at_gpu = {"p": rng.random() < 0.8, "q": rng.random() < 0.8}
    chain: list[Any] = []
    for computation in (p, q):
        chain.append(computation)
        if at_gpu[computation.name]:
            computation.split(c, 2, c0, c1)
            blocks = [c0] if rng.random() < 0.6 else [r, c0]
            computation.tag_gpu(blocks=blocks, threads=[c1], stream=rng.randrange(2))
    moves = []
    if at_gpu["p"]:
        moves.append((0, a, {r: R + 1, c: 4}, tm.CPU2GPU))
    if at_gpu["p"] != at_gpu["q"]:
        moves.append((1, p, {r: R + 1, c: 3}, tm.CPU2GPU if at_gpu["q"] else tm.GPU2CPU))
    if at_gpu["q"]:
        moves.append((2, q, {r: (1, R + 1), c: 3}, tm.GPU2CPU))
    for position, source, domain, way in reversed(moves):
        mode = tm.ASYNC if rng.random() < 0.8 else tm.SYNC
        made = f.create_xfer(domain, source[r, c], way, mode, stream=rng.randrange(3))
        made.collapse_many(*([c] if rng.random() < 0.6 else [r, c]))
        chain.insert(position, made)
    for stage in list(chain):
        computed = stage.name in ("p", "q")
        if rng.random() < 0.75 and (not computed or at_gpu[stage.name]):
            low = (1, R + 1) if stage in (q, chain[-1]) else R + 1
            domain = {r: low} if rng.random() < 0.4 else None
            wait = stage.wait(domain, on=rng.choice([None, 0, 1, 2]))
            chain.insert(chain.index(stage) + 1 + (rng.random() < 0.3), wait)
    if rng.random() < 0.6:
        chain += [stage.wait() for stage in list(chain) if hasattr(stage, "wait") and stage.name not in _here(at_gpu)]
    if rng.random() < 0.5:
        with suppress(CommandError):
            f.order(*chain[: rng.randrange(2, len(chain) + 1)], at=r)
    with suppress(CommandError):
        f.order(*chain, at=tm.root)
    return f.program


@pytest.mark.parametrize("seed", range(24))
def test_random_pipelines_are_judged_as_a_graph_of_events_says(seed: int) -> None:
    agrees(pipeline(random.Random(seed)), [{"R": 2}])


def test_both_verdicts_are_common_among_random_pipelines() -> None:
    verdicts = [check(pipeline(random.Random(seed))).ok for seed in range(24)]
    assert 3 <= sum(verdicts) <= 21


def small_product(buffers: int) -> Program:
    """A product in tiles of 2 by 2."""
    i0, i1, j0, j1, k0, k1 = tm.iters("i0 i1 j0 j1 k0 k1")
    f = tm.Function("product", params=[N, M, K], assume="N >= 1 and M >= 1")
    a, b = f.input("A", tm.float32, [N, K]), f.input("B", tm.float32, [K, M])
    out = f.reduction("C", {i: N, j: M}, over={k: K}, op=tm.sum, expr=a[i, k] * b[k, j])
    f.outputs(out)
    out.tile(i, j, 2, 2, i0, j0, i1, j1)
    out.update.split(k, 2, k0, k1)
    out.update.reorder(i0, j0, k0, i1, j1, k1)
    out.update.after(out.init, j0)
    out.tag_gpu(blocks=[i0, j0], threads=[i1, j1])
    out.update.copy(a, [i, k], at=k0, into=tm.SHARED, buffers=buffers, name="As")
    out.update.copy(b, [k, j], at=k0, into=tm.SHARED, buffers=buffers, name="Bs")
    up_a = f.create_xfer({i: N, k: K}, a[i, k], tm.CPU2GPU).collapse_many(i, k)
    up_b = f.create_xfer({k: K, j: M}, b[k, j], tm.CPU2GPU).collapse_many(k, j)
    down = f.create_xfer({i: N, j: M}, out[i, j], tm.GPU2CPU).collapse_many(i, j)
    f.order(up_a, up_b, out.init, at=tm.root)
    f.order(out.update, down, at=tm.root)
    return f.program


def weakened(program: Program) -> Iterator[Program]:
    """The program, and what is left of it without each of its waits and barriers."""
    yield program
    for statement in program.statements.values():
        if statement.role in (Role.BARRIER, Role.WAIT):
            yield removed(program, statement)


@pytest.mark.parametrize("buffers", [1, 2])
def test_each_barrier_of_a_tiled_product_is_judged_as_a_graph_of_events_says(buffers: int) -> None:
    sizes = [{"N": 2, "M": 3, "K": 5}, {"N": 1, "M": 1, "K": 0}]
    verdicts = [agrees(program, sizes) for program in weakened(with_barriers(small_product(buffers)))]
    assert verdicts[0] and not any(verdicts[1:]) and len(verdicts) > 1


def test_each_wait_of_the_blur_is_judged_as_a_graph_of_events_says() -> None:
    verdicts = [agrees(program, [{"R": 4, "C": 2}]) for program in weakened(blur_by_hand().f.program)]
    assert verdicts == [True, False, False, False]


def test_the_barrier_of_a_stencil_is_judged_as_a_graph_of_events_says() -> None:
    verdicts = [agrees(p, [{"N": 40}]) for p in weakened(with_barriers(tiled_stencil().f.program))]
    assert verdicts == [True, False]


def rows(kept: int) -> Program:
    """In each block q follows p row by row, and reads two rows; `kept` rows of p are in shared memory."""
    f = tm.Function("rows", params=[N, R], assume="N >= 1 and R >= 1")
    a = f.input("a", tm.float32, [N, R + 1, 3])
    p = f.computation("p", {i: N, r: R + 1, c: 3}, 2 * a[i, r, c])
    q = f.computation("q", {i: N, r: (1, R + 1), c: 2}, p[i, r - 1, c + 1] + p[i, r, c + 1])
    f.outputs(q)
    q.after(p, r)
    p.tag_gpu(blocks=[i], threads=[c])
    q.tag_gpu(threads=[c])
    p.store_in(tm.Buffer("kept", [kept, 3], tm.float32, tm.SHARED), [r % kept, c])
    up = f.create_xfer({i: N, r: R + 1, c: 3}, a[i, r, c], tm.CPU2GPU).collapse_many(i, r, c)
    down = f.create_xfer({i: N, r: (1, R + 1), c: 2}, q[i, r, c], tm.GPU2CPU).collapse_many(i, r, c)
    f.order(up, p, at=tm.root)
    f.order(q, down, at=tm.root)
    return f.program


@pytest.mark.parametrize(("kept", "barriers"), [(2, 2), (3, 1), (4, 1)])
def test_rows_kept_in_turn_need_fewer_barriers_where_more_are_kept(kept: int, barriers: int) -> None:
    verdicts = [agrees(p, [{"N": 2, "R": 4}]) for p in weakened(with_barriers(rows(kept)))]
    assert verdicts == [True] + barriers * [False]


def test_a_right_program_is_judged_right_and_an_empty_one_too() -> None:
    assert Judge(blur_by_hand().f.program, {"R": 3, "C": 65}).accepts()
