"""Lifetimes of temporaries: bytes beside brute force, values beside `evaluate()`, mistakes that the machine finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.passes.blame import wrong_pass
from tests.programs.chains import M, N, chain, i, i0, i1, j, j0, j1, on_ranks
from tiramisu_py.interpret import InterpretError, run
from tiramisu_py.ir import Allocate, Await, BeginArray, Block, Comment, EndArray, LoopFunction, MemoryBlock, Node
from tiramisu_py.ir.rewriting import walk, with_children
from tiramisu_py.ir.verify import verify
from tiramisu_py.passes import temporary_bytes


def loops(f: tm.Function) -> LoopFunction:
    """What is emitted, without comments."""
    lowered = f.show("lowered")
    return replace(lowered, body=_without(lowered.body, lambda node: isinstance(node, Comment)))


def _without(node: Node, leaves: Callable[[Node], bool]) -> Node:
    if isinstance(node, Block):
        node = Block(tuple(child for child in node.body if not leaves(child)))
    return with_children(node, lambda child: _without(child, leaves))


def blocks(f: tm.Function) -> list[tuple[str, ...]]:
    """The arrays of each block of memory."""
    return [node.arrays for node in walk(loops(f).body) if isinstance(node, MemoryBlock)]


def pipeline(seed: int, stages: int = 9) -> tuple[tm.Function, int]:
    """Stages that read one or two earlier ones, and the most arrays that live at a time, counted stage by stage."""
    rng = random.Random(seed)
    f = tm.Function("pipeline", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N, M])
    values: list[Any] = [f.computation("s0", {i: N, j: M}, a[i, j] + 1)]
    last = {0: 0}
    for k in range(1, stages):
        read = {k - 1, rng.randrange(max(0, k - 4), k)}
        terms = [values[n][i, j] for n in sorted(read)]
        values.append(f.computation(f"s{k}", {i: N, j: M}, sum(terms[1:], terms[0]) * 0.5 + k))
        last |= dict.fromkeys(read, k)
    f.outputs(values[-1])
    live = max(sum(first <= k <= last[first] for first in last if first < stages - 1) for k in range(stages))
    return f, live


@pytest.mark.parametrize("seed", range(12))
def test_a_pipeline_has_as_many_bytes_as_live_at_a_time(seed: int) -> None:
    f, live = pipeline(seed)
    sizes = {"N": 7, "M": 5}
    assert temporary_bytes(f.show("lowered"), sizes) == {"memory": 4 * 7 * 5 * live}
    assert f.cost(**sizes).temporaries == {"memory": 4 * 7 * 5 * live}
    assert wrong_pass(f, sizes, {"N": 1, "M": 1}) == ""


@pytest.mark.parametrize("seed", range(12))
def test_compiled_pipelines_have_the_values_of_the_algorithm(seed: int) -> None:
    f, _ = pipeline(seed, 12)
    a = np.random.default_rng(seed).random((19, 23), dtype=np.float32)
    np.testing.assert_array_equal(f.compile()(a), f.evaluate(a))


@pytest.mark.parametrize("on", ["", "threads"])
def test_a_chain_has_two_blocks_however_long_it_is(on: str) -> None:
    f = chain(9, on)
    first, second = blocks(f)
    assert first == ("s0", "s2", "s4", "s6") and second == ("s1", "s3", "s5", "s7")
    a = np.random.default_rng(1).random((33, 40), dtype=np.float32)
    kernel = f.compile(threads=2)
    np.testing.assert_array_equal(kernel(a), f.evaluate(a))
    assert kernel.temporary_bytes(N=33, M=40) == {"memory": 4 * 33 * (39 + 38)}
    with pytest.raises(tm.ArgumentError, match=r"K is not a parameter; the parameters are N, M"):
        kernel.temporary_bytes(N=33, M=40, K=3)
    with pytest.raises(tm.ArgumentError, match=r"give M="):
        kernel.temporary_bytes(N=33)


@pytest.mark.slow
@pytest.mark.parametrize("streams", [(0,), (0, 1), (0, 1, 2)])
def test_arrays_of_a_gpu_have_memory_in_turns_on_any_streams(streams: tuple[int, ...]) -> None:
    f = chain(5, "gpu", streams)
    assert len(blocks(f)) == 2
    assert temporary_bytes(f.show("lowered"), {"N": 3, "M": 9}) == {"GPU 0": 4 * 3 * (9 + 8)}
    for seed in range(3):  # operations late, at random times, at once
        assert wrong_pass(f, {"N": 3, "M": 9}, seed=seed) == ""


@pytest.mark.slow
def test_blocks_of_a_gpu_are_around_those_of_the_host() -> None:
    f = chain(9, "both")
    made = [node for node in walk(f.show("lowered").body) if isinstance(node, MemoryBlock)]
    assert [node.device for node in made] == [0, 0, None, None] and [node.lasting for node in made] == [True] * 2 + [
        False
    ] * 2
    for seed in range(3):
        assert wrong_pass(f, {"N": 3, "M": 12}, seed=seed) == ""
    a = np.random.default_rng(3).random((5, 21), dtype=np.float32)
    np.testing.assert_array_equal(f.compile(device="simulator")(a), f.evaluate(a))


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [False, True])
def test_arrays_of_messages_live_until_the_wait(overlap: bool) -> None:
    f = on_ranks(4, overlap)
    assert sorted(len(arrays) for arrays in blocks(f)) == [2, 2]
    assert all(node.lasting for node in walk(f.show("lowered").body) if isinstance(node, MemoryBlock))
    for seed in range(3):
        assert wrong_pass(f, {"M": 3}, seed=seed) == ""


@pytest.mark.slow
def test_chains_on_two_streams_share_what_the_host_or_a_stream_has_waited_for() -> None:
    f = tm.Function("apart", params=[N, M], assume="N >= 1 and M >= 1")
    values: list[Any] = [f.input(f"{name}_in", tm.float32, [N, M]) for name in "pq"]
    for k in range(3):
        for stream, name in enumerate("pq"):
            stage = f.computation(f"{name}{k}", {i: N, j: M}, values[stream][i, j] + k)
            stage.tile(i, j, 2, 4, i0, j0, i1, j1).tag_gpu([i0, j0], [i1, j1], stream=stream)
            values[stream] = stage
    f.outputs(*values)
    f.derive_transfers()
    assert not any(isinstance(node, Await) and node.stream is not None for node in walk(f.show("lowered").body))
    # q2 is computed when the host has p2; before that nothing orders the streams
    expected = {("p_in", "p1", "q2"), ("p0", "p2"), ("q_in", "q1"), ("q0",)}
    assert {tuple(name.removesuffix("@gpu0") for name in arrays) for arrays in blocks(f)} == expected
    for seed in range(3):
        assert wrong_pass(f, {"N": 3, "M": 5}, seed=seed) == ""


def rows_in_a_loop(parallel: bool) -> tm.Function:
    """A chain of rows within a loop over rows."""
    f = tm.Function("rows", params=[N, M], assume="N >= 1 and M >= 1")
    value: Any = f.input("a", tm.float32, [N, M])
    stages = []
    for k in range(5):
        value = f.computation(f"s{k}", {i: N, j: M}, value[i, M - 1 - j] + k)
        stages.append(value)
    f.outputs(value)
    for stage in reversed(stages[:-1]):
        stage.compute_at(value, i)
    if parallel:
        value.parallelize(i)
    return f


def test_rows_of_one_iteration_have_memory_in_turns_but_those_of_threads_are_their_own() -> None:
    a = np.random.default_rng(2).random((9, 21), dtype=np.float32)
    for parallel, expected in ((False, [("s0", "s2"), ("s1", "s3")]), (True, [("s0",), ("s1",), ("s2",), ("s3",)])):
        f = rows_in_a_loop(parallel)
        assert sorted(blocks(f)) == expected
        np.testing.assert_array_equal(f.compile(threads=2)(a), f.evaluate(a))
        assert wrong_pass(f, {"N": 3, "M": 4}) == ""


def test_small_and_placed_arrays_stay_as_they_are() -> None:
    f = chain(5)
    f["s1"].place(tm.INTERLEAVE)
    assert not any("s1" in arrays for arrays in blocks(f))
    assert "s1" in {node.buffer for node in walk(f.show("lowered").body) if isinstance(node, Allocate)}
    g = tm.Function("small", params=[N], assume="N >= 1")
    value: Any = g.input("a", tm.float32, [8])
    for k in range(5):
        value = g.computation(f"s{k}", {i: 8}, value[7 - i] + 1)
    g.outputs(value)
    assert blocks(g) == []


def machine(function: LoopFunction, **sizes: int) -> None:
    """One run on the machine: of the chain, on rows and columns of ones."""
    a, out = (np.ones((sizes["N"], sizes["M"] - less), np.float32) for less in (0, len(function.outputs) and 5))
    (name,) = function.outputs
    run(function, {"a": a, name: out}, sizes)


def changed(function: LoopFunction, change: Callable[[Node], Node]) -> LoopFunction:
    """The function with each statement changed, from the inside out."""

    def rewritten(node: Node) -> Node:
        return change(with_children(node, rewritten))

    return replace(function, body=rewritten(function.body))


def test_the_machine_finds_two_arrays_in_one_block_that_live_together() -> None:
    def in_one(node: Node) -> Node:
        return replace(node, block="memory") if isinstance(node, BeginArray | EndArray) else node

    function = loops(chain(5))
    machine(function, N=2, M=8)
    with pytest.raises(InterpretError, match=r"s1 accesses s0\[\d, \d\] when its memory has become that of s1"):
        machine(changed(function, in_one), N=2, M=8)


def test_the_machine_finds_an_array_that_ends_before_its_last_use() -> None:
    def early(node: Node) -> Node:
        if not isinstance(node, Block) or not any(isinstance(child, EndArray) for child in node.body):
            return node
        body = list(node.body)
        at = next(k for k, child in enumerate(body) if isinstance(child, EndArray))
        body.insert(at - 1, body.pop(at))
        return Block(tuple(body))

    with pytest.raises(InterpretError, match=r"s1 accesses s0\[0, 0\] when its memory is free again"):
        machine(changed(loops(chain(5)), early), N=2, M=8)


def test_without_a_wait_between_streams_the_machine_finds_memory_in_use() -> None:
    function = loops(chain(6, "gpu", (0, 1)))
    waits = [node for node in walk(function.body) if isinstance(node, Await) and node.stream is not None]
    found = []
    for seed in range(9):
        wrong = replace(function, body=_without(function.body, lambda node: node is waits[2]))
        a, out = np.ones((2, 9), np.float32), np.zeros((2, 3), np.float32)
        try:
            run(wrong, {"a": a, "s5": out}, {"N": 2, "M": 9}, seed)
        except InterpretError as error:
            found.append(str(error))
    assert found


def test_verify_knows_blocks_and_the_arrays_in_them() -> None:
    function = loops(chain(4))
    assert list(verify(function)) == []

    def renamed(node: Node) -> Node:
        return replace(node, block="elsewhere") if isinstance(node, BeginArray) else node

    def twice(node: Node) -> Node:
        first = next(iter(node.body), None) if isinstance(node, Block) else None
        return Block((first, *node.body)) if isinstance(first, BeginArray) and isinstance(node, Block) else node

    assert "is in the memory elsewhere, which does not exist there" in next(verify(changed(function, renamed)))
    assert "s0 begins in the scope of another s0" in " ".join(verify(changed(function, twice)))
