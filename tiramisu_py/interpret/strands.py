"""Strands: the distribution of a concurrent loop's iterations, the interleaving of steps, and meetings."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tiramisu_py.interpret.arithmetic import Value
from tiramisu_py.interpret.evaluator import Frame
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.ir import Barrier, LastBlock, LoadMatrices, Locked, Mma, Node, TreeReduce
from tiramisu_py.program.loops import Parallel, Tag, Vector
from tiramisu_py.records import dataclass


@dataclass(eq=False)
class Meeting:
    """A statement at which a thread waits for others of its block, or of its warp; for a reduction, with its operand.

    After that of a ticket, the value says whether the block goes on; at that of a lock, whether it is given back.
    """

    node: Barrier | TreeReduce | LastBlock | LoadMatrices | Locked | Mma
    frame: Frame
    value: Value = None
    indices: tuple[int, ...] = ()


@dataclass(eq=False)
class Nested:
    """A statement inside the current one, whose steps come next."""

    node: Node
    frame: Frame


#: The steps of a strand; a step is None, or a meeting.
Steps = Iterator[Meeting | None]
#: The steps of one statement, with the statements inside in place of their steps.
OwnSteps = Iterator[Meeting | Nested | None]

#: The maximum number of threads of a parallel loop.
MOST_THREADS = 5


def deal(iterations: range, tag: Tag | None, choice: random.Random) -> tuple[list[list[int]], bool]:
    """The iterations of each thread (lane), and whether these advance in lockstep.

    In lockstep, lane k of a vector loop gets every `width`-th iteration from the k-th on. Otherwise, and in other
    loops, iterations are distributed to threads at random, in any order.
    """
    lockstep = choice.random() < 0.5
    if isinstance(tag, Vector) and lockstep:
        return [list(iterations[lane :: tag.width]) for lane in range(tag.width)], True
    threads = choice.randint(1, MOST_THREADS)
    shares: list[list[int]] = [[] for _ in range(threads)]
    for iteration in choice.sample(iterations, len(iterations)):
        choice.choice(shares).append(iteration)
    return shares, lockstep and isinstance(tag, Parallel)


def static_shares(iterations: range, tag: Parallel, threads: int) -> list[list[int]]:
    """The iterations of each thread in a static schedule of OpenMP: equal parts in order, or chunks in turn.

    Raises `InterpretError` for a loop that is dealt out in another way.
    """
    if tag.schedule != "static" or tag.collapse > 1 or tag.balance is not None:
        raise InterpretError("a loop over partial results is dynamic, balanced, or dealt out with an inner one")
    threads = min(threads, tag.threads or threads)
    if tag.chunk is not None:
        chunks = [list(iterations[at : at + tag.chunk]) for at in range(0, len(iterations), tag.chunk)]
        return [[each for chunk in chunks[thread::threads] for each in chunk] for thread in range(threads)]
    least, more = divmod(len(iterations), threads)
    ends = [least * thread + min(thread, more) for thread in range(threads + 1)]
    return [list(iterations[begin:end]) for begin, end in pairwise(ends)]


def interleaved(strands: Sequence[Steps], lockstep: bool, choice: random.Random) -> Steps:
    """The steps of all strands: one of each in turn, or of a random one at a time."""
    live = list(strands)
    while live:
        for strand in list(live) if lockstep else [choice.choice(live)]:
            try:
                if next(strand) is not None:
                    raise InterpretError("a barrier is inside a vector loop, whose lanes do not reach it together")
            except StopIteration:
                live.remove(strand)
        yield None
