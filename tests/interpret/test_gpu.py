"""The adversarial machine on GPU programs: loop IR written by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Binary, Const, Expr, Iter, Param, Select
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.interpret import InterpretError, run
from tiramisu_py.ir import (
    Allocate,
    ArrayArgument,
    Await,
    Barrier,
    Block,
    Copy,
    Deferred,
    Events,
    For,
    GpuIndex,
    If,
    KernelArray,
    KernelFunction,
    Launch,
    Let,
    Load,
    LoopFunction,
    Node,
    OnGpus,
    Private,
    Ramp,
    Record,
    Store,
    TreeReduce,
)
from tiramisu_py.program.loops import Combine, Parallel
from tiramisu_py.program.storage import Memory

N = Param("N", ty.int64)
SEEDS = range(12)
WIDTH = 4


def at(name: str) -> Expr:
    return Iter(name, ty.int64)


def number(value: int) -> Expr:
    return Const(value, ty.int64)


def op(symbol: str, left: Expr, right: Expr) -> Expr:
    return Binary(symbol, left, right, ty.bool_ if symbol in ("<", "<=", "==", ">") else left.dtype)


def plus(left: Expr, value: int) -> Expr:
    return op("+", left, number(value))


def load(buffer: str, *indices: Expr) -> Load:
    return Load(buffer, indices, ty.float64)


def store(buffer: str, index: Expr, value: Expr) -> Store:
    return Store(buffer, (index,), value, buffer)


def array(name: str, constant: bool = False, extent: Expr = N) -> KernelArray:
    return KernelArray(name, ty.float64, (extent,), constant)


THREAD = GpuIndex("thread", 0)
GLOBAL = op("+", op("*", GpuIndex("block", 0), number(WIDTH)), THREAD)
BLOCKS = op("//", plus(N, WIDTH - 1), number(WIDTH))


def kernel(body: Node, *arrays: KernelArray, name: str = "k") -> KernelFunction:
    """A kernel of one thread for each element, `WIDTH` a block."""
    guarded = If(op("<", GLOBAL, N), body)
    return KernelFunction(name, ("N",), (), arrays, (WIDTH, 1, 1), guarded)


def launch(*arrays: str, name: str = "k", stream: int = 0, device: int = 0) -> Launch:
    return Launch(name, (BLOCKS, number(1), number(1)), (N,), arrays, device, stream)


def up(to: str, of: str, asynchronous: bool = False, stream: int = 0, device: int = 0) -> Copy:
    return Copy(
        to, device, (number(0),), of, None, (number(0),), (N,), ty.float64, device, stream, asynchronous, f"{of} up"
    )


def down(to: str, of: str, asynchronous: bool = False, stream: int = 0, device: int = 0) -> Copy:
    return Copy(
        to, None, (number(0),), of, device, (number(0),), (N,), ty.float64, device, stream, asynchronous, f"{to} down"
    )


def on_gpu(body: Node, *names: str, device: int = 0) -> Node:
    for name in names:
        body = Allocate(name, (N,), ty.float64, body, memory=Memory.GPU, device=device)
    return body


def function(body: Node, *kernels: KernelFunction, more: int = 0) -> LoopFunction:
    """``y = ... x ...``, two arrays of N (and `more`) numbers."""
    declared = (
        ArrayArgument("x", ty.float64, (plus(N, more),), True, False),
        ArrayArgument("y", ty.float64, (plus(N, more),), False, True),
    )
    return LoopFunction("f", ("N",), declared, (), body, gpus=OnGpus(kernels=kernels, devices=1))


DOUBLE = kernel(store("b", GLOBAL, op("*", load("a", GLOBAL), Const(2.0, ty.float64))), array("a", True), array("b"))


def result(of: LoopFunction, size: int, seed: int) -> np.ndarray:
    y = np.full(size, -1.0)
    run(of, {"x": np.arange(1.0, size + 1), "y": y}, {"N": size}, seed)
    return y


def outcomes(of: LoopFunction, size: int = 7) -> set[str]:
    """What comes of a program that should double, over all seeds: right, wrong, or the words of an error."""
    found = set()
    for seed in SEEDS:
        try:
            found.add("right" if (result(of, size, seed) == 2 * np.arange(1.0, size + 1)).all() else "wrong")
        except InterpretError as error:
            found.add(str(error))
    return found


@pytest.mark.parametrize("size", [0, 1, 4, 7])
def test_a_synchronous_program_is_right_in_every_order(size: int) -> None:
    body = on_gpu(Block((up("x@gpu0", "x"), launch("x@gpu0", "y@gpu0"), down("y", "y@gpu0"))), "x@gpu0", "y@gpu0")
    for seed in SEEDS:
        np.testing.assert_array_equal(result(function(body, DOUBLE), size, seed), 2 * np.arange(1.0, size + 1))


def asynchronous(*left_out: str) -> LoopFunction:
    """Copies and kernel on three streams, with events between them, some left out."""
    steps: dict[str, tuple[Node, ...]] = {
        "up": (up("x@gpu0", "x", True, 1), Record("up", (), 0, 1)),
        "kernel waits": (Await("up", (), 0, 0, "kernel waits"),),
        "kernel": (launch("x@gpu0", "y@gpu0"), Record("ran", (), 0, 0)),
        "copy waits": (Await("ran", (), 0, 2, "copy waits"),),
        "down": (down("y", "y@gpu0", True, 2), Record("down", (), 0, 2)),
        "host waits": (Await("down", (), 0, None, "host waits"),),
    }
    body: Node = Block(tuple(node for name, nodes in steps.items() if name not in left_out for node in nodes))
    for name in ("up", "ran", "down"):
        body = Events(name, (), 0, body)
    return function(on_gpu(body, "x@gpu0", "y@gpu0"), DOUBLE)


def test_waits_order_operations_of_different_streams() -> None:
    assert outcomes(asynchronous()) == {"right"}


@pytest.mark.parametrize("wait", ["kernel waits", "copy waits", "host waits"])
def test_a_program_without_one_of_its_waits_fails_under_some_seed(wait: str) -> None:
    assert outcomes(asynchronous(wait)) - {"right"}


def test_without_the_last_wait_memory_is_touched_after_it_was_given_back() -> None:
    found = outcomes(asynchronous("host waits"))
    assert any("x up accesses x" in one and "when f has returned" in one for one in found)
    alone = on_gpu(launch("x@gpu0", "x@gpu0"), "x@gpu0")
    assert any("when its memory is free again" in one for one in outcomes(function(alone, DOUBLE)))


def test_a_wait_after_the_kernel_that_needs_it_does_not_help() -> None:
    late = Block(
        (
            up("x@gpu0", "x", True, 1),
            Record("up", (), 0, 1),
            launch("x@gpu0", "y@gpu0"),
            Await("up", (), 0, 0, "late"),
            down("y", "y@gpu0"),
        )
    )
    found = outcomes(function(on_gpu(Events("up", (), 0, late), "x@gpu0", "y@gpu0"), DOUBLE))
    assert found - {"right"}


def test_events_are_told_apart_by_their_indices_and_unrecorded_ones_have_happened() -> None:
    rows = Block(
        (
            For(
                "i", number(0), number(2), Block((Await("e", (at("i"),), 0, None, "w"), Record("e", (at("i"),), 0, 0)))
            ),
            up("x@gpu0", "x"),
            launch("x@gpu0", "y@gpu0"),
            down("y", "y@gpu0"),
        )
    )
    whole = on_gpu(Events("e", (number(2),), 0, rows), "x@gpu0", "y@gpu0")
    assert outcomes(function(whole, DOUBLE)) == {"right"}
    outside = Events("e", (number(1),), 0, Block((rows,)))
    assert any("the event e[1]" in found for found in outcomes(function(on_gpu(outside, "x@gpu0", "y@gpu0"), DOUBLE)))


def test_memories_are_told_apart() -> None:
    host = on_gpu(Block((launch("x", "y@gpu0"),)), "y@gpu0")
    assert all("kernel k is given x, which GPU 0 cannot reach" in found for found in outcomes(function(host, DOUBLE)))
    device = on_gpu(For("i", number(0), N, store("y", at("i"), load("y@gpu0", at("i")))), "y@gpu0")
    assert all("memory of GPU 0, on the host" in found for found in outcomes(function(device)))
    other = on_gpu(Block((launch("x@gpu1", "x@gpu1"),)), "x@gpu1", device=1)
    assert all("which GPU 0 cannot reach" in found for found in outcomes(function(other, DOUBLE)))
    wrong = on_gpu(Block((up("x", "x"),)), "x@gpu0")
    assert all("x up takes x to be on device 0; it is on None" in found for found in outcomes(function(wrong)))


def test_mapped_memory_is_reached_by_both_but_kernels_still_run_late() -> None:
    def mapped(wait: bool) -> LoopFunction:
        fill = For("i", number(0), N, store("m", at("i"), load("x", at("i"))))
        use = For("i", number(0), N, store("y", at("i"), load("m", at("i"))))
        twice = kernel(store("b", GLOBAL, op("*", load("b", GLOBAL), Const(2.0, ty.float64))), array("b"))
        waits = (Record("e", (), 0, 0), *([Await("e", (), 0, None, "w")] if wait else []))
        body = Events("e", (), 0, Block((fill, launch("m"), *waits, use)))
        return function(Allocate("m", (N,), ty.float64, body, memory=Memory.HOST_MAPPED), twice)

    assert outcomes(mapped(True)) == {"right"}
    assert "wrong" in outcomes(mapped(False)) or len(outcomes(mapped(False))) > 1


def test_device_memory_is_poisoned_and_kernel_arguments_are_checked() -> None:
    body = on_gpu(Block((launch("x@gpu0", "y@gpu0"), down("y", "y@gpu0"))), "x@gpu0", "y@gpu0")
    assert all(
        "b reads x@gpu0[" in found and "nothing has written" in found for found in outcomes(function(body, DOUBLE))
    )
    shape = replace(DOUBLE, arrays=(array("a", True, plus(N, 1)), array("b")))
    body = on_gpu(Block((up("x@gpu0", "x"), launch("x@gpu0", "y@gpu0"))), "x@gpu0", "y@gpu0")
    assert all("takes x@gpu0 as float64[8]; it is float64[7]" in found for found in outcomes(function(body, shape)))
    body = on_gpu(Block((up("x@gpu0", "x"), launch("x@gpu0", "y@gpu0"), down("y", "y@gpu0"))), "x@gpu0", "y@gpu0")
    changed = kernel(store("a", GLOBAL, Const(1.0, ty.float64)), array("a", True), array("b"))
    assert all("an input that must stay" in found for found in outcomes(function(body, changed)))


def neighbours(barrier: bool, memory: Memory = Memory.SHARED) -> LoopFunction:
    """Each thread reads twice what another thread of its block has put into a tile; all blocks are full."""
    opposite = op("-", number(WIDTH - 1), THREAD)
    double = op("*", load("tile", THREAD), Const(1.0, ty.float64))
    mirrored = op("-", op("+", op("*", GpuIndex("block", 0), number(2 * WIDTH)), number(WIDTH - 1)), GLOBAL)
    body = Block(
        (
            store("tile", opposite, op("*", load("a", mirrored), Const(2.0, ty.float64))),
            *([Barrier("between")] if barrier else []),
            store("b", GLOBAL, double),
        )
    )
    tile = Allocate("tile", (number(WIDTH),), ty.float64, body, register=memory is Memory.REGISTER, memory=memory)
    made = KernelFunction("k", ("N",), (), (array("a", True), array("b")), (WIDTH, 1, 1), tile)
    whole = Block((up("x@gpu0", "x"), launch("x@gpu0", "y@gpu0"), down("y", "y@gpu0")))
    return function(on_gpu(whole, "x@gpu0", "y@gpu0"), made)


def test_threads_meet_at_barriers_and_race_without() -> None:
    assert outcomes(neighbours(True), 8) == {"right"}
    found = outcomes(neighbours(False), 8)
    assert "right" not in found and all("race: " in one or "nothing has written" in one for one in found)


def test_shared_memory_is_poisoned_and_registers_belong_to_a_thread() -> None:
    found = outcomes(neighbours(True, Memory.REGISTER), 8)
    assert all("tile reads" in one or "b reads tile[" in one for one in found)


def test_a_barrier_to_which_not_all_threads_come_is_an_error() -> None:
    for inside in (
        If(op("<", THREAD, number(2)), Barrier("odd")),
        If(op("<", THREAD, number(2)), Barrier("odd"), Barrier("even")),
        For("i", number(0), THREAD, Barrier("odd")),
    ):
        body = Block((inside, store("b", GLOBAL, load("a", GLOBAL))))
        whole = Block((up("x@gpu0", "x"), launch("x@gpu0", "y@gpu0"), down("y", "y@gpu0")))
        made = function(on_gpu(whole, "x@gpu0", "y@gpu0"), kernel(body, array("a", True), array("b")))
        assert all("of the 4 threads of block" in found for found in outcomes(made, 8))


def test_blocks_are_not_ordered_and_later_launches_are() -> None:
    shift = kernel(
        If(op("<", number(0), GLOBAL), store("b", GLOBAL, load("b", plus(GLOBAL, -1)))), array("a", True), array("b")
    )
    whole = Block((up("x@gpu0", "x"), up("y@gpu0", "x"), launch("x@gpu0", "y@gpu0"), down("y", "y@gpu0")))
    found = outcomes(function(on_gpu(whole, "x@gpu0", "y@gpu0"), shift), 8)
    assert found and all(one.startswith("race: b (block") for one in found)
    between = kernel(store("b", GLOBAL, load("a", op("-", plus(N, -1), GLOBAL))), array("a", True), array("b"))
    whole = Block(
        (
            up("x@gpu0", "x"),
            launch("x@gpu0", "y@gpu0"),
            launch("y@gpu0", "x@gpu0", name="r"),
            launch("x@gpu0", "y@gpu0", name="r"),
            down("y", "y@gpu0"),
        )
    )
    assert outcomes(function(on_gpu(whole, "x@gpu0", "y@gpu0"), DOUBLE, replace(between, name="r")), 9) == {"right"}


def total(body: Node) -> LoopFunction:
    """``y[0]`` starts from 0 on the GPU; all other elements from what they are."""
    zero = KernelFunction("zero", (), (), (array("b", extent=number(1)),), (1, 1, 1), store("b", number(0), _real(0)))
    arrays = (array("a", True), array("b", extent=number(1)))
    add = KernelFunction("add", ("N",), (), arrays, (WIDTH, 1, 1), body)
    steps = Block(
        (
            up("x@gpu0", "x"),
            Launch("zero", (number(1), number(1), number(1)), (), ("t@gpu0",), 0, 0),
            launch("x@gpu0", "t@gpu0", name="add"),
            replace(down("y", "t@gpu0"), extents=(number(1),)),
        )
    )
    on_device = Allocate("t@gpu0", (number(1),), ty.float64, steps, memory=Memory.GPU, device=0)
    declared = (
        ArrayArgument("x", ty.float64, (N,), True, False),
        ArrayArgument("y", ty.float64, (N,), False, True, covered=False),
    )
    return LoopFunction(
        "f", ("N",), declared, (), on_gpu(on_device, "x@gpu0"), gpus=OnGpus(kernels=(zero, add), devices=1)
    )


def _real(value: float) -> Expr:
    return Const(value, ty.float64)


def test_updates_by_several_threads_are_right_when_they_are_atomic_and_race_otherwise() -> None:
    update = Store("b", (number(0),), op("+", load("b", number(0)), load("a", GLOBAL)), "b_update", sum_)
    for seed in SEEDS:
        with pytest.raises(InterpretError, match="race: b_update"):
            result(total(If(op("<", GLOBAL, N), update)), 9, seed)
    atomic = If(op("<", GLOBAL, N), replace(update, atomic=True))
    for seed in SEEDS:
        assert result(total(atomic), 9, seed)[0] == 45
    lanes = For("_", number(0), number(1), If(op("<", GLOBAL, N), update), tag=Parallel())
    for seed in SEEDS:
        assert result(total(replace(lanes, reductions=(Private("b", sum_, Combine.ATOMIC),))), 9, seed)[0] == 45


def test_a_tree_combines_what_all_threads_of_a_block_bring() -> None:
    value = Select(op("<", GLOBAL, N), load("a", GLOBAL), _real(0), ty.float64)
    part = Load("part", (), ty.float64)
    tree = TreeReduce(("part",), (), (value,), ty.float64, sum_, "b_update")
    merge = Store("b", (number(0),), op("+", load("b", number(0)), part), "b_update", sum_, atomic=True)
    merged = If(op("<", THREAD, number(1)), merge)
    tree = Allocate("part", (), ty.float64, Block((tree, merged)), memory=Memory.REGISTER)
    for seed in SEEDS:
        assert result(total(tree), 9, seed)[0] == 45
    some = If(op("<", GLOBAL, N), tree)
    for seed in SEEDS:
        with pytest.raises(InterpretError, match="1 of the 4 threads"):
            result(total(some), 9, seed)


def deferred(barrier: bool, index: Expr) -> LoopFunction:
    """Each thread asks for one element of a tile, and reads element `index` of it."""
    body = Block(
        (
            Deferred(store("tile", THREAD, load("a", GLOBAL))),
            *([Barrier("between")] if barrier else []),
            store("b", GLOBAL, op("*", load("tile", index), Const(2.0, ty.float64))),
        )
    )
    tile = Allocate("tile", (number(WIDTH),), ty.float64, body, memory=Memory.SHARED)
    made = KernelFunction("k", ("N",), (), (array("a", True), array("b")), (WIDTH, 1, 1), tile)
    whole = Block((up("x@gpu0", "x"), launch("x@gpu0", "y@gpu0"), down("y", "y@gpu0")))
    return function(on_gpu(whole, "x@gpu0", "y@gpu0"), made)


def test_deferred_stores_have_happened_at_the_next_barrier_and_not_before() -> None:
    assert outcomes(deferred(True, THREAD), 8) == {"right"}
    assert all("race: b (block" in found for found in outcomes(deferred(False, THREAD), 8))


def test_a_tile_is_filled_again_only_after_all_have_read_it() -> None:
    def rounds(barriers: int) -> LoopFunction:
        """Two rounds through one tile: fill, barrier, use, barrier."""
        place = op("+", op("*", at("k"), number(WIDTH)), THREAD)
        opposite = op("+", op("*", at("k"), number(WIDTH)), op("-", number(WIDTH - 1), THREAD))
        read = load("tile", op("-", number(WIDTH - 1), THREAD))
        body = Block(
            (
                Deferred(store("tile", THREAD, load("a", place))),
                Barrier("filled"),
                store("b", opposite, op("*", read, Const(2.0, ty.float64))),
                *([Barrier("used")] if barriers == 2 else []),
            )
        )
        loop = For("k", number(0), op("//", N, number(WIDTH)), body)
        tile = Allocate("tile", (number(WIDTH),), ty.float64, loop, memory=Memory.SHARED)
        made = KernelFunction("k", ("N",), (), (array("a", True), array("b")), (WIDTH, 1, 1), tile)
        single = replace(launch("x@gpu0", "y@gpu0"), grid=(number(1), number(1), number(1)))
        whole = Block((up("x@gpu0", "x"), single, down("y", "y@gpu0")))
        return function(on_gpu(whole, "x@gpu0", "y@gpu0"), made)

    assert outcomes(rounds(2), 8) == {"right"}
    assert any("race: tile" in found for found in outcomes(rounds(1), 8))


def test_vectors_in_kernels_touch_each_of_their_elements() -> None:
    def wide(step: int) -> LoopFunction:
        lanes = Ramp(op("*", GLOBAL, number(step)), 2)
        body = store("b", lanes, op("*", load("a", lanes), Const(2.0, ty.float64)))
        guarded = If(op("<", op("*", GLOBAL, number(2)), N), body)
        made = KernelFunction("k", ("N",), (), (array("a", True), array("b")), (WIDTH, 1, 1), guarded)
        whole = Block((up("x@gpu0", "x"), launch("x@gpu0", "y@gpu0"), down("y", "y@gpu0")))
        return function(on_gpu(whole, "x@gpu0", "y@gpu0"), made)

    assert outcomes(wide(2), 8) == {"right"}
    assert all("race: b" in found for found in outcomes(wide(1), 8))


def test_boxes_of_rows_are_copied_to_where_they_belong() -> None:
    """Rows 1 to 2 of a picture of N rows and 3 columns, columns 1 to 2, into the corner of another."""
    columns = number(3)
    copy = Copy(
        "t@gpu0",
        0,
        (number(0), number(0)),
        "x",
        None,
        (number(1), number(1)),
        (number(2), number(2)),
        ty.float64,
        0,
        0,
        False,
        "part",
    )
    back = replace(
        copy, target="y", target_device=None, source="t@gpu0", source_device=0, first=copy.into, into=copy.first
    )
    body = Allocate("t@gpu0", (number(2), number(2)), ty.float64, Block((copy, back)), memory=Memory.GPU, device=0)
    declared = (
        ArrayArgument("x", ty.float64, (N, columns), True, False),
        ArrayArgument("y", ty.float64, (N, columns), False, True, covered=False),
    )
    x, y = np.arange(12.0).reshape(4, 3), np.zeros((4, 3))
    for seed in SEEDS:
        run(LoopFunction("f", ("N",), declared, (), body), {"x": x, "y": y}, {"N": 4}, seed)
        np.testing.assert_array_equal(y[1:3, 1:3], x[1:3, 1:3])
        assert y.sum() == x[1:3, 1:3].sum()
    outside = replace(copy, first=(number(3), number(1)))
    with pytest.raises(InterpretError, match="part accesses x"):
        run(LoopFunction("f", ("N",), declared, (), replace(body, body=outside)), {"x": x, "y": y}, {"N": 4})


def test_what_the_host_passes_is_seen_in_kernels() -> None:
    scaled = kernel(
        Let("s", at("row"), store("b", GLOBAL, op("*", load("a", GLOBAL), load("a", at("s"))))),
        array("a", True),
        array("b"),
    )
    scaled = replace(scaled, params=("N", "row"))
    whole = Block(
        (
            up("x@gpu0", "x"),
            For("row", number(0), number(2), replace(launch("x@gpu0", "y@gpu0"), values=(N, at("row")))),
            down("y", "y@gpu0"),
        )
    )
    assert outcomes(function(on_gpu(whole, "x@gpu0", "y@gpu0"), scaled)) == {"right"}
