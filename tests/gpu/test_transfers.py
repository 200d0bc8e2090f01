"""Transfers as users declare them: what is one operation, how many there are, and between which devices."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.pipelines import on_gpu, pair
from tests.programs.pipelines import i, j, k

pytestmark = pytest.mark.skipif(without_cxx(), reason=CXX)
N, M, L = tm.params("N M L")


def inner(*loops: tm.Iter) -> tuple[tm.Function, tm.Transfer, tm.Transfer]:
    """The inside of a volume goes to the GPU and back; of each transfer these loops are one operation."""
    f = tm.Function("inner", params=[N, M, L], assume="N >= 3 and M >= 3 and L >= 3")
    a = f.input("a", tm.int32, [N, M, L])
    o = f.computation("o", {i: (1, N - 1), j: (1, M - 1), k: (1, L - 1)}, 2 * a[i, j, k], shape=[N, M, L])
    f.outputs(o)
    on_gpu(o, i, j, k, size=32)
    box = {i: (1, N - 1), j: (1, M - 1), k: (1, L - 1)}
    up = f.create_xfer(box, a[i, j, k], tm.CPU2GPU, name="up")
    down = f.create_xfer(box, o[i, j, k], tm.GPU2CPU, name="down")
    for transfer in (up, down):
        if loops:
            transfer.collapse_many(*loops)
    return f, up, down


SIZES = {"N": 5, "M": 7, "L": 9}  # the inside: 3 x 5 x 7


@pytest.mark.parametrize(
    ("loops", "messages"),
    [((), 105), ((k,), 15), ((j, k), 3), ((k, j), 3), ((i, j, k), 1)],
    ids=["none", "rows", "planes", "planes named inside out", "all"],
)
def test_what_is_collapsed_is_one_operation_of_whatever_stride(loops, messages):
    f, *_ = inner(*loops)
    moved = f.cost("communication", **SIZES)
    assert [(m.messages, m.elements) for m in moved.transfers] == [(messages, 105)] * 2
    a = np.arange(5 * 7 * 9, dtype=np.int32).reshape(5, 7, 9)
    kernel = f.compile(device="simulator", sanitize=True, seed=2)
    inside = (slice(1, -1),) * 3
    np.testing.assert_array_equal(kernel(a)[inside], 2 * a[inside])


def test_a_box_in_a_volume_is_copied_without_packing():
    """One call of the runtime each, with lines and planes; and no memory but the two arrays on the GPU."""
    f, *_ = inner(i, j, k)
    host = f.source()["inner.c"]
    assert host.count("tm_gpu_copy(") == 2 and host.count("tm_gpu_allocate(") == 2 and "for (" not in host
    assert host.count(".lines = ") == host.count(".planes = ") == 2


def test_loops_become_one_operation_one_after_another():
    f, up, _ = inner()
    up.collapse_many(k)
    up.collapse_many(j)
    assert f.cost("communication", **SIZES).transfers[0].messages == 3
    up.collapse_many(i)
    assert f.cost("communication", **SIZES).transfers[0].messages == 1


def test_what_is_not_innermost_is_no_operation():
    f, up, _ = inner()
    for wrong in ((i,), (i, j), (i, k), (tm.iters("z")[0],), (k, k)):
        names = ", ".join(map(str, wrong))
        with pytest.raises(
            tm.CommandError,
            match=rf"the innermost loops, not {names} \(up has the loops i, j, k\)",
        ):
            up.collapse_many(*wrong)
    with pytest.raises(tm.CommandError, match="collapse_many needs a loop"):
        up.collapse_many()
    assert f.cost("communication", **SIZES).transfers[0].messages == 105


def sent(domain: object, access: object, *loops: tm.Iter) -> int:
    """How many copies a transfer of these values of a square array is, where N is 6."""
    f = tm.Function("sent", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [4 * N, 4 * N])
    f.outputs(f.computation("o", {i: N}, a[i, i]))
    f.create_xfer(domain, access(a), tm.CPU2GPU, name="up").collapse_many(*loops)
    return f.cost("communication", N=6).transfers[0].messages


def test_what_is_no_box_is_as_many_copies_as_it_takes():
    assert sent({i: N, j: N}, lambda a: a[i, j], i, j) == 1
    assert sent({i: N, j: i + 1}, lambda a: a[i, j], i, j) == 6  # a triangle, by rows
    assert sent({j: N, i: N}, lambda a: a[i, j], i) == 6  # columns
    assert sent({i: N}, lambda a: a[i, i], i) == 6  # a diagonal
    assert sent({i: N}, lambda a: a[4 * i, 0], i) == 6  # every fourth row
    assert sent({i: N, j: N}, lambda a: a[4 * i, j], i, j) == 6
    assert sent({i: N, j: N}, lambda a: a[i, 4 * j], i, j) == 36


@pytest.mark.parametrize("mode", [tm.SYNC, tm.ASYNC])
def test_values_go_from_one_gpu_to_another(mode):
    """All three directions, in both modes; what is asynchronous is waited for by the stream that needs it."""
    s = pair()
    on_gpu(s.p, i, stream=1)
    s.q.split(i, 4, *tm.iters("q0 q1"))
    s.q.tag_gpu(blocks=[tm.iters("q0")[0]], threads=[tm.iters("q1")[0]], device=1, stream=2)
    up = s.f.create_xfer({i: N + 1}, s.a[i], tm.CPU2GPU, mode, stream=1, name="up")
    over = s.f.create_xfer({i: N + 1}, s.p[i], tm.GPU2GPU, mode, stream=1, device=0, to_device=1, name="over")
    down = s.f.create_xfer({i: N}, s.q[i], tm.GPU2CPU, mode, stream=2, device=1, name="down")
    for transfer in (up, over, down):
        transfer.collapse_many(i)
    if mode is tm.ASYNC:
        violations = s.f.check().violations
        assert any(v.kind == "race" and "nothing makes it wait for the transfer over" in v.message for v in violations)
        arrived = over.wait(on=2, device=1)
        s.f.order(over, arrived, s.q, at=tm.root)
        finished = down.wait()
        s.f.order(down, finished, at=tm.root)
    assert s.f.check().ok
    directions = [m.direction for m in s.f.cost("communication", N=10).transfers]
    assert directions == ["host -> gpu 0", "gpu 0 -> gpu 1", "gpu 1 -> host"]
    kernel = s.f.compile(device="simulator", sanitize=True, seed=0)
    for seed in range(5):
        a = np.arange(41, dtype=np.int32)
        np.testing.assert_array_equal(kernel.seeded(seed, "shuffled")(a), s.f.evaluate(a=a))


def test_nothing_is_derived_where_everything_is_on_the_host():
    s = pair()
    before = s.f.program.statements
    s.f.derive_transfers()
    assert s.f.program.statements == before and s.f.check().ok
    assert s.f.cost("communication", N=4).transfers == ()


def test_derived_transfers_speak_of_the_iterators_of_the_algorithm():
    s = pair()
    on_gpu(s.p, i)
    on_gpu(s.q, i)
    (first, *_) = s.f.check().violations
    assert "pair.create_xfer({i: N + 1}, a[i], tm.CPU2GPU)" in first.repair
    s.f.derive_transfers()
    assert "copy a[0 .. N + 1] to a@gpu0[0 .. N + 1]" in s.f.show("pseudocode")
    loops = s.f.program.loop_names(s.f.program.statements["a_to_gpu"])
    assert loops == ("i",)


def test_a_repair_of_a_missing_transfer_can_be_copied_as_it_stands():
    """What the report proposes is a program: it is executed, and mends what it is the repair of."""
    s = pair()
    on_gpu(s.p, i)
    on_gpu(s.q, i)
    for _ in range(2):
        found = next(v for v in s.f.check().violations if v.kind == "communication")
        command = found.repair.partition(", or ")[2]
        exec(command, {"pair": s.f, "tm": tm, "i": i, "N": N, "a": s.a, "q": s.q})
    assert s.f.check().ok


def test_arrays_in_page_locked_memory_are_passed_like_any_other():
    s = pair()
    on_gpu(s.p, i)
    on_gpu(s.q, i)
    s.f.derive_transfers()
    kernel = s.f.compile(device="simulator", sanitize=True)
    a, q = tm.pinned_empty(21, tm.int32, "simulator"), tm.pinned_empty(20, tm.int32, "simulator")
    a[:] = np.arange(21)
    result = kernel(a, q=q)
    assert np.shares_memory(result, q)
    np.testing.assert_array_equal(q, s.f.evaluate(a=a))


def test_what_is_read_in_strides_is_sent_as_the_box_around_it():
    """Elements in between are on the host already: one copy of all is right, and thousands of single ones are not."""
    f = tm.Function("halved", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.int32, [2 * N, 2 * M])
    o = f.computation("o", {i: N, j: M}, a[2 * i, 2 * j] + a[2 * i, 2 * j + 1])
    q = f.computation("q", {i: N, j: M}, a[2 * i, 2 * j] + 1)
    f.outputs(o, q)
    on_gpu(o, i, j, size=32)
    on_gpu(q, i, j, size=32)
    f.derive_transfers()
    assert [m.messages for m in f.cost("communication", N=10, M=20).transfers] == [1, 1, 1]
    kernel = f.compile(device="simulator", sanitize=True)
    given = np.arange(6 * 14, dtype=np.int32).reshape(6, 14)
    for found, right in zip(kernel(given), f.evaluate(a=given), strict=True):
        np.testing.assert_array_equal(found, right)
