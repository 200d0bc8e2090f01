"""Lifetimes beside a graph of what happens before what, whose paths are followed one by one."""

from __future__ import annotations

import random
from itertools import product

import pytest

from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.algorithm.types import float32, int64
from tiramisu_py.ir import Await, Complete, Copy, Launch, Load, Node, Piece, Post, Record, Request, Store
from tiramisu_py.passes.memory.lifetimes import lifetimes
from tiramisu_py.program.statement import SendMode

ONE = Const(1, int64)
ARRAYS = "abcdef"
ONE_ELEMENT = Piece((ONE,), ())
#: A place in the graph: the host when it begins statement n, or what statement n puts on a stream.
Place = tuple[str, int]


def random_statements(seed: int, count: int = 12) -> list[Node]:
    """Statements of a host with two streams and two events; later ones use later arrays."""
    rng = random.Random(seed)
    found: list[Node] = []
    for n in range(count):
        window = n * (len(ARRAYS) - 1) // count
        one, other = rng.sample(ARRAYS[window : window + 2], 2)
        stream, event = rng.randrange(2), rng.choice("xy")
        copied = Copy(one, 0, (ONE,), other, 0, (ONE,), (ONE,), float32, 0, stream, rng.random() < 0.8, "C")
        found.append(
            rng.choice(
                [
                    Store(one, (ONE,), Load(other, (ONE,), float32), "S"),
                    Launch("k", (ONE, ONE, ONE), (), (one, other), 0, stream),
                    copied,
                    Record(event, (), 0, stream),
                    Await(event, (), 0, rng.choice([None, 0, 1]), "W"),
                ]
            )
        )
    return found


def reached(statements: list[Node]) -> dict[Place, set[Place]]:
    """What happens after each place, by following edges: order of the host, of streams, waits for what was recorded."""
    edges: dict[Place, set[Place]] = {("host", n): {("host", n + 1)} for n in range(len(statements))}
    latest: dict[str, int] = {}
    waiting: dict[int, set[Place]] = {0: set(), 1: set()}

    def put(n: int, stream: int) -> None:
        edges["host", n].add(("stream", n))
        for before in waiting[stream]:
            edges.setdefault(before, set()).add(("stream", n))
        waiting[stream] = {("stream", n)}
        edges.setdefault(("stream", n), set())

    for n, node in enumerate(statements):
        match node:
            case Launch() | Copy() | Record():
                put(n, node.stream)
                if isinstance(node, Record):
                    latest[node.event] = n
                if isinstance(node, Copy) and not node.asynchronous:
                    edges["stream", n].add(("host", n + 1))
            case Await() if node.event in latest:
                if node.stream is None:
                    edges["stream", latest[node.event]].add(("host", n + 1))
                else:
                    waiting[node.stream].add(("stream", latest[node.event]))
    found: dict[Place, set[Place]] = {}
    for start in edges:
        seen, left = set[Place](), [start]
        while left:
            for following in edges.get(left.pop(), ()):
                if following not in seen:
                    seen.add(following)
                    left.append(following)
        found[start] = seen
    return found


def uses(statements: list[Node], array: str) -> list[Place]:
    """The places that use an array."""
    found: list[Place] = []
    for n, node in enumerate(statements):
        match node:
            case Store():
                assert isinstance(node.value, Load)
                found += [("host", n)] if array in (node.buffer, node.value.buffer) else []
            case Launch() if array in node.arrays:
                found.append(("stream", n))
            case Copy() if array in (node.target, node.source):
                found.append(("stream", n))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_an_array_is_before_another_one_where_all_paths_say_so(seed: int) -> None:
    ordered = 0
    for k in range(60):
        statements = random_statements(100 * seed + k)
        after, lives = reached(statements), lifetimes(statements, ARRAYS)
        for one, other in product(lives, lives):
            pairs = product(uses(statements, one), uses(statements, other))
            expected = one != other and all(later in after[place] for place, later in pairs)
            assert lives[one].before(lives[other]) == expected, (one, other, statements)
            ordered += expected
        for name, life in lives.items():
            ends = (
                n for n in range(len(statements))
                if all(("host", n + 1) in after[place] for place in uses(statements, name))
            )  # fmt: skip
            assert life.ended == next(ends, None)
    assert ordered > 20


def test_messages_use_their_array_until_the_last_wait_and_persistent_ones_until_the_end() -> None:
    def post(persistent: bool) -> Post:
        return Post(True, "a", float32, ONE_ELEMENT, ONE, 1, SendMode.STANDARD, Request("r", ONE), persistent, "P")

    store = Store("b", (ONE,), Const(0.0, float32), "S")
    waits = [Complete("r", ONE, ONE, "W"), store, Complete("r", ONE, ONE, "W"), store]
    assert lifetimes([post(False), store, *waits], "ab")["a"].ended == 4
    assert lifetimes([post(False), store], "ab")["a"].ended is None
    assert lifetimes([post(True), *waits], "ab")["a"].ended is None
