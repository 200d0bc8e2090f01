"""Random algorithms: the oracle against plain recursion, one value at a time, that shares no code with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.programs.miniature import Small, iters, params
from tiramisu_py.algorithm import functions as tm
from tiramisu_py.algorithm import operators
from tiramisu_py.algorithm.expressions import Expr, select

i, j, k = iters("i j k")
N, M = params("N M")
LIMIT = 1009

#: What a term is: an expression, and the same in plain Python.
Term = tuple[Expr | int, Callable[[dict[str, int]], int]]


@dataclass
class Reference:
    """The values of the algorithm so far, by recursion: for each name its points and the value at one of them."""

    size: dict[str, int]
    points: dict[str, set[tuple[int, ...]]] = field(default_factory=dict)
    value: dict[str, Callable[..., int]] = field(default_factory=dict)


def bound(rng: random.Random, outer: bool) -> Term:
    """A bound of an iterator: of parameters and, if there is one, of the outer iterator."""
    choices: list[Term] = [
        (N, lambda at: at["N"]),
        (M, lambda at: at["M"]),
        ((N + 3) // 2, lambda at: (at["N"] + 3) // 2),
        (tm.minimum(N, M), lambda at: min(at["N"], at["M"])),
        (4, lambda at: 4),
    ]
    if outer:
        choices += [
            (i + 1, lambda at: at["i"] + 1),
            (tm.maximum(M - i, 0), lambda at: max(at["M"] - at["i"], 0)),
            (i // 2 + 2, lambda at: at["i"] // 2 + 2),
        ]
    return rng.choice(choices)


def condition(rng: random.Random) -> Term:
    a, b = rng.randint(-2, 2), rng.randint(1, 3)
    return rng.choice(
        [
            ((i + a * j) % b == 0, lambda at: (at["i"] + a * at["j"]) % b == 0),
            ((i != a) | (j >= b), lambda at: at["i"] != a or at["j"] >= b),
            (~((i > a) & (j < b)), lambda at: not (at["i"] > a and at["j"] < b)),
        ]
    )  # type: ignore[return-value]


def number(rng: random.Random, reads: list[Term], depth: int = 3) -> Term:
    """An integer expression; `reads` are accesses that are right wherever it stands."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*reads, *reads, (i, lambda at: at["i"]), (j - 2, lambda at: at["j"] - 2), (7, lambda at: 7)])
    (a, x), (b, y) = number(rng, reads, depth - 1), number(rng, reads, depth - 1)
    test, holds = condition(rng)
    return rng.choice(
        [
            (a + b, lambda at: x(at) + y(at)),
            (a - 3 * b, lambda at: x(at) - 3 * y(at)),
            (tm.minimum(a, b), lambda at: min(x(at), y(at))),
            ((a + 1) * (b % 5), lambda at: (x(at) + 1) * (y(at) % 5)),
            (a // 3, lambda at: x(at) // 3),
            (select(test, a, b), lambda at: x(at) if holds(at) else y(at)),
            (select((a % 2 == 0) & test, a, b), lambda at: x(at) if x(at) % 2 == 0 and holds(at) else y(at)),
        ]
    )  # type: ignore[return-value]


def read(handle: Any, value: Callable[..., int], shift: tuple[int, int]) -> Term:
    """``handle[i + shift]`` where that is in the box of values that all computations have, else 0: lazily."""
    inside = (i + shift[0] >= 0) & (j + shift[1] >= 0) & (i + shift[0] <= 2) & (j + shift[1] <= 2)

    def plain(at: dict[str, int]) -> int:
        element = (at["i"] + shift[0], at["j"] + shift[1])
        return value(*element) if all(0 <= each <= 2 for each in element) else 0

    return select(inside, handle[i + shift[0], j + shift[1]], 0), plain


def domain(rng: random.Random, size: dict[str, int]) -> tuple[Any, set[tuple[int, ...]], Any]:
    """A domain that contains the box from (0, 0) to (2, 2), its points, and a condition on it."""
    (high, top), (wide, right) = bound(rng, False), bound(rng, True)
    low = rng.choice([0, -1, -2])
    pieces = [{i: 3, j: 3}, {i: (low, high), j: (low, wide)}]
    test, holds = condition(rng)
    found = {(a, b) for a in range(3) for b in range(3)}
    for a in range(low, top(size)):
        found |= {(a, b) for b in range(low, right({**size, "i": a}))}
    kept = {(a, b) for a, b in found if holds({"i": a, "j": b}) or (0 <= a <= 2 and 0 <= b <= 2)}
    return pieces, kept, test | ((i >= 0) & (i <= 2) & (j >= 0) & (j <= 2))


def declare(rng: random.Random, f: Small, known: Reference, handles: dict[str, Any], name: str) -> None:
    """One more computation: plain, a recurrence or a reduction."""
    pieces, points, where = domain(rng, known.size)
    shifts = [(rng.randint(-2, 2), rng.randint(-2, 2)) for _ in range(3)]
    reads = [read(handles[name], known.value[name], rng.choice(shifts)) for name in handles]
    kind = rng.choice(["plain", "recurrence", "reduction"])
    if kind == "reduction":
        body, plain = number(rng, [*reads, (k, lambda at: at["k"])])
        extent, last = bound(rng, True)
        value = reduced(plain, last, known.size)
        handles[name] = f.reduction(name, pieces, {k: (0, extent)}, operators.sum_, body % LIMIT, where=where)
    else:
        value, expression = recurrence(rng, reads, known.size, kind == "recurrence")
        handles[name] = f.computation(name, pieces, expression, where=where, dtype="int64")
    known.points[name], known.value[name] = points, value


def reduced(plain: Callable[..., int], last: Callable[..., int], size: dict[str, int]) -> Callable[..., int]:
    def value(a: int, b: int) -> int:
        at = {**size, "i": a, "j": b}
        return sum(plain({**at, "k": c}) % LIMIT for c in range(last(at)))

    return value


def recurrence(
    rng: random.Random, reads: list[Term], size: dict[str, int], itself: bool
) -> tuple[Callable[..., int], Any]:
    """The value in Python, and the expression (a function of the computation, where it reads itself)."""
    seed = rng.random()
    back = rng.choice([(-1, 0), (0, -1), (-1, 1), (1, 0), (0, 1), (1, -2)])

    @cache
    def value(a: int, b: int) -> int:
        def own(at: dict[str, int]) -> int:
            element = (at["i"] + back[0], at["j"] + back[1])
            return value(*element) if all(0 <= each <= 2 for each in element) else 0

        plain = number(random.Random(seed), [*reads, (0, own)] if itself else [*reads, (0, lambda at: 0)])[1]
        return plain({**size, "i": a, "j": b}) % LIMIT

    def expression(handle: Any) -> Any:
        term = read(handle, lambda *_: 0, back) if itself else (0, lambda at: 0)
        return number(random.Random(seed), [*reads, term])[0] % LIMIT

    return value, expression if itself else expression(None)


@pytest.mark.parametrize("seed", range(150))
def test_the_oracle_agrees_with_plain_recursion(seed: int) -> None:
    rng = random.Random(seed)
    size = {"N": rng.randint(3, 6), "M": rng.randint(3, 6)}
    f, known, handles = Small("N M", "N >= 3 and M >= 3"), Reference(size), {}
    for position in range(rng.randint(1, 4)):
        declare(rng, f, known, handles, f"c{position}")
    last = list(handles)[-1]
    f.computation("kept", {i: 3, j: 3}, handles[last][i, j])
    got = f.evaluate(size)
    expected = [[known.value[last](a, b) for b in range(3)] for a in range(3)]
    np.testing.assert_array_equal(got, expected)
    assert f.elements(last, **size) == known.points[last] or f.algorithm.computations[last].is_reduction
