"""The judge of GPU programs, on programs whose verdict is known without it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tiramisu_py as tm
from tests.oracle.agreeing.gpu_agreement import compared, judged
from tests.oracle.generators.script import Script
from tests.oracle.judges.gpu_judge import judge
from tests.oracle.judges.judge import kinds, sizes

(N,) = tm.params("N")
i, i0, i1, j, k, k0, k1, t, y = tm.iters("i i0 i1 j k k0 k1 t y")


def pipeline(least: int = 1) -> SimpleNamespace:
    """p[i] = 2 a[i], q[i] = p[i] + p[i + 1]."""
    f = tm.Function("f", params=[N], assume=f"N >= {least}")
    a = f.input("a", tm.int32, [N + 1])
    p = f.computation("p", {i: N + 1}, 2 * a[i])
    q = f.computation("q", {i: N}, p[i] + p[i + 1])
    f.outputs(q)
    return SimpleNamespace(f=f, a=a, p=p, q=q)


def on_gpu(computation: tm.Selection, stream: int = 0, device: int = 0, **options: object) -> None:
    computation.split(i, 2, i0, i1)
    computation.tag_gpu(blocks=[i0], threads=[i1], stream=stream, device=device, **options)


def transfer(
    s: SimpleNamespace, which: str, direction: object, mode: object = tm.SYNC, **options: object
) -> tm.Transfer:
    """All values of a source, as one operation."""
    extent = N if which == "q" else N + 1
    made = s.f.create_xfer({i: extent}, getattr(s, which)[i], direction, mode, **options)
    made.collapse_many(i)
    return made


def verdict(s: SimpleNamespace, most: int = 4) -> set[str]:
    return {kind for params in sizes(s.f.program, most) for kind in kinds(judge(s.f.program, params))}


def test_a_host_program_is_judged_as_before() -> None:
    s = pipeline()
    assert verdict(s) == set()
    s.q.after(s.p, i)
    assert verdict(s) == {"order"}


def test_kernels_need_their_values_in_the_memory_of_the_gpu_and_the_caller_needs_them_back() -> None:
    s = pipeline()
    on_gpu(s.p)
    on_gpu(s.q)
    assert "order" in verdict(s)
    transfer(s, "a", tm.CPU2GPU)
    assert "order" in verdict(s)
    transfer(s, "q", tm.GPU2CPU)
    assert verdict(s) == set()


def test_a_kernel_that_nothing_waits_for_may_not_be_complete_at_the_end() -> None:
    s = pipeline()
    on_gpu(s.p)
    on_gpu(s.q)
    transfer(s, "a", tm.CPU2GPU, tm.ASYNC)
    down = transfer(s, "q", tm.GPU2CPU, tm.ASYNC)
    assert verdict(s) == {"race"}
    down.wait()
    assert verdict(s) == set()


def test_a_transfer_of_nothing_waits_for_nothing() -> None:
    """Without an element of q, the kernel that computes p still runs, and there is no copy that waits for it."""
    s = pipeline(0)
    on_gpu(s.p)
    on_gpu(s.q)
    transfer(s, "a", tm.CPU2GPU)
    transfer(s, "q", tm.GPU2CPU)
    assert verdict(s) == {"race"}
    assert judge(s.f.program, {"N": 1}) == []


def test_operations_of_different_queues_need_waits() -> None:
    for waits in ((), ("a",), ("q",), ("a", "q")):
        s = pipeline()
        up = transfer(s, "a", tm.CPU2GPU, tm.ASYNC, stream=1)
        on_gpu(s.p)
        on_gpu(s.q)
        down = transfer(s, "q", tm.GPU2CPU, tm.ASYNC, stream=2)
        if "a" in waits:
            arrived = up.wait(on=0)
            s.f.order(up, arrived, s.p, at=tm.root)
        if "q" in waits:
            computed = s.q.wait(on=2)
            s.f.order(s.q, computed, down, at=tm.root)
        finished = down.wait()
        s.f.order(s.p, s.q, finished, at=tm.root)
        assert verdict(s) == (set() if len(waits) == 2 else {"race"})


def test_a_wait_before_its_operation_does_not_wait() -> None:
    s = pipeline()
    up = transfer(s, "a", tm.CPU2GPU, tm.ASYNC, stream=1)
    on_gpu(s.p)
    on_gpu(s.q)
    transfer(s, "q", tm.GPU2CPU)
    arrived = up.wait(on=0)
    s.f.order(arrived, up, s.p, at=tm.root)
    assert verdict(s) == {"race", "order"}


def test_rows_are_waited_for_one_by_one() -> None:
    """A wait for the value before is not a wait for this one."""
    for late in (False, True):
        s = pipeline()
        up = s.f.create_xfer({i: N + 1}, s.a[i], tm.CPU2GPU, tm.ASYNC, stream=1, name="up")
        s.p.split(i, 1, i0, i1)
        s.p.tag_gpu(blocks=[i1])
        s.p.split(i0, 1, i, k)
        s.q.parallelize(i)
        arrived = up.wait({i: N + 1}, on=0)
        s.f.order(up, arrived, s.p, at=i)
        if late:
            arrived.shift(i, 1) if hasattr(arrived, "shift") else pytest.skip("waits are not shifted")
        transfer(s, "p", tm.GPU2CPU)
        assert verdict(s) == ({"race"} if late else set())


def test_the_host_reads_mapped_memory_only_after_a_wait() -> None:
    s = pipeline()
    s.p.store_in(tm.HOST_MAPPED)
    on_gpu(s.p)
    transfer(s, "a", tm.CPU2GPU)
    assert verdict(s) == {"race"}
    done = s.p.wait()
    s.f.order(s.p, done, s.q, at=tm.root)
    assert verdict(s) == set()


def shared(barriers: bool) -> SimpleNamespace:
    s = pipeline()
    s.q.split(i, 2, i0, i1)
    s.p.store_in(tm.SHARED)
    s.p.compute_at(s.q, i0)
    s.q.tag_gpu(blocks=[i0], threads=[i1], barriers=False)
    s.p.tag_gpu(threads=[i])
    if barriers:
        s.f.barrier(s.p, s.q, at=i0)
    transfer(s, "a", tm.CPU2GPU)
    transfer(s, "q", tm.GPU2CPU)
    return s


def test_threads_need_a_barrier_between_what_one_writes_and_another_reads() -> None:
    assert verdict(shared(False)) == {"race"}
    assert verdict(shared(True)) == set()


def test_blocks_of_a_launch_are_not_ordered() -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    s = f.computation("s", {i: N}, lambda s: tm.select(i == 0, a[0], s[i - 1] + a[i]))
    f.outputs(s)
    of = SimpleNamespace(f=f, a=a, s=s)
    up = f.create_xfer({i: N}, a[i], tm.CPU2GPU)
    up.collapse_many(i)
    down = f.create_xfer({i: N}, s[i], tm.GPU2CPU)
    down.collapse_many(i)
    s.split(i, 2, i0, i1)
    s.tag_gpu(blocks=[i1])
    assert verdict(of) == {"race"}


@pytest.mark.parametrize(("combine", "expected"), [(None, {"race"}), (tm.ATOMIC, set()), (tm.TREE, set())])
def test_terms_on_threads_need_combining(combine: object, expected: set[str]) -> None:
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N, N])
    c = f.reduction("c", {i: N}, over={k: N}, op=tm.sum, expr=a[i, k])
    f.outputs(c)
    f.create_xfer({i: N, k: N}, a[i, k], tm.CPU2GPU).collapse_many(i, k)
    f.create_xfer({i: N}, c[i], tm.GPU2CPU).collapse_many(i)
    c.init.tag_gpu(blocks=[i])
    c.update.split(k, 2, k0, k1)
    c.update.tag_gpu(blocks=[i, k0], threads=[k1], combine=combine)
    assert verdict(SimpleNamespace(f=f), 3) == expected


def test_two_gpus_have_memories_of_their_own() -> None:
    s = pipeline()
    on_gpu(s.p)
    on_gpu(s.q, device=1)
    transfer(s, "a", tm.CPU2GPU)
    transfer(s, "q", tm.GPU2CPU, device=1)
    assert "order" in verdict(s)
    over = transfer(s, "p", tm.GPU2GPU, device=0, to_device=1)
    assert verdict(s) == set()
    s.f.remove(over)
    transfer(s, "p", tm.GPU2GPU, device=1, to_device=0)
    assert "order" in verdict(s)


def test_memory_out_of_reach_is_refused_in_a_branch_too_that_is_never_taken() -> None:
    """The proof refuses it, and the judge, which sees no read, does not call that too strict."""
    script = Script()
    for line in """N, = tm.params('N')
i, x0, x1, x6, x7 = tm.iters('i x0 x1 x6 x7')
f = tm.Function('f', params=[N], assume='N >= 1')
a = f.input('a', tm.int64, [N])
q = f.computation('q', {i: N}, 2 * a[i])
r = f.computation('r', {i: (1, N - 1)}, q[i + 1] - a[i - 1])
s = f.computation('s', {i: (1, N - 2)}, tm.select(i < N - 1, r[i + 1], q[i - 1]))
f.outputs(s)
r.split(i, 3, x0, x1)
q.store_in(tm.SHARED)
q.compute_at(r, x0)
r.tag_gpu(blocks=[x0], threads=[x1])
q.tag_gpu(threads=[i])
s.split(i, 3, x6, x7)
s.tag_gpu(blocks=[x6], threads=[x7])
f.derive_transfers()""".splitlines():
        script.do(line)
    assert [violation.kind for violation in script.function.check().violations] == ["reach"]
    assert not any(judged(script, params) for params in sizes(script.program, 5))
    assert compared(script).kind == "refused"
