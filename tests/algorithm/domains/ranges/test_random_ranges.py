"""Random expressions: every value that `evaluate` finds, at the ends of types above all, lies in the range found."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py import sets
from tiramisu_py.algorithm.domains.ranges.value_ranges import ranges_of
from tiramisu_py.errors import DeclarationError, DTypeError

(N,) = tm.params("N")
i, k = tm.iters("i k")
SIZE, TERMS = 40, 3
INTEGERS = [tm.int8, tm.uint8, tm.int16, tm.uint16, tm.int32, tm.uint32, tm.int64]
UNARY = [lambda a: -a, lambda a: ~a, tm.absolute, lambda a: tm.minimum(tm.maximum(a, 0), 9)]
BINARY = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a * a, lambda a, b: a & b,
    lambda a, b: a | b, lambda a, b: a ^ b, tm.minimum, tm.maximum,
]  # fmt: skip
BY_LITERAL = [
    lambda a, n: a // (n + 1), lambda a, n: a // -(n + 1), lambda a, n: a % (n + 1), lambda a, n: a & n,
    lambda a, n: a ^ n, lambda a, n: a >> n % 8, lambda a, n: a << n % 8, lambda a, n: a + n, lambda a, n: a * n,
]  # fmt: skip
OF_FLOATS = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, tm.minimum, tm.maximum, lambda a, b: abs(a) - b,
    lambda a, b: tm.select(a == a, a, 1.0), lambda a, b: tm.select(a < b, a, b), lambda a, b: a / 3.0 + 0.5,
    lambda a, b: tm.floor(a), lambda a, b: tm.clip(a, -2.0, 7.5),
]  # fmt: skip


class Expressions:
    """Random integer expressions of inputs."""

    def __init__(self, choice: random.Random, f: tm.Function) -> None:
        self.choice = choice
        types = [choice.choice(INTEGERS) for _ in range(2)]
        self.leaves = [f.input(f"x{n}", dtype, [N, TERMS])[i, k] for n, dtype in enumerate(types)]
        self.leaves.append(f.input("bounded", tm.int32, [N, TERMS], values=(-3, 12))[i, k])
        self.leaves += [i, k, tm.cast(choice.choice(INTEGERS), i)]
        self.real = f.input("real", choice.choice([tm.float32, tm.float64]), [N, TERMS])[i, k]

    def integer(self, depth: int):
        """An integer expression."""
        choice = self.choice
        if depth == 0 or choice.random() < 0.1:
            return choice.choice(self.leaves)
        kind = choice.randrange(7)
        if kind == 0:
            return choice.choice(UNARY)(self.integer(depth - 1))
        if kind == 1:
            return choice.choice(BY_LITERAL)(self.integer(depth - 1), choice.choice([0, 1, 3, 6, 7, 100]))
        if kind == 2:
            return tm.cast(choice.choice(INTEGERS), self.integer(depth - 1))
        if kind == 3:
            a, b, c = (self.integer(depth - 1) for _ in range(3))
            return tm.select(choice.choice([a < b, a == 3, (a >= 0) & (b < c), self.real > 0.0]), b, c)
        if kind == 4:
            x = self.floating(depth - 1)
            converted = tm.cast(choice.choice(INTEGERS), x)
            return choice.choice([converted, tm.select((x >= 0.0) & (x < 9.0), converted, 0)])
        return choice.choice(BINARY)(self.integer(depth - 1), self.integer(depth - 1))

    def floating(self, depth: int):
        """A floating-point expression."""
        if depth <= 0:
            return self.choice.choice([self.real, tm.cast(tm.float32, self.integer(0)), tm.clip(self.real, -1.0, 4.0)])
        return self.choice.choice(OF_FLOATS)(self.floating(depth - 1), self.floating(depth - 1))


def values(choice: random.Random, dtype) -> np.ndarray:
    """Numbers of a type, many of them at its ends."""
    made = np.random.default_rng(choice.randrange(2**32))
    if dtype.is_float:
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 8.999999, 9.0, -1.0, 1e30, 2.0**31]
        return made.choice([*special, *made.normal(0, 5, 20)], (SIZE, TERMS)).astype(dtype.numpy)
    least, largest = dtype.limits
    ends = [least, least + 1, largest, largest - 1, 0, 1, 2, 7, 8]
    drawn = [
        choice.choice(ends) if choice.random() < 0.6 else choice.randint(least, largest) for _ in range(SIZE * TERMS)
    ]
    return np.array(drawn, dtype=dtype.numpy).reshape(SIZE, TERMS)


def random_function(choice: random.Random) -> tm.Function | None:
    """A computation ``c`` of a random expression, or a reduction of it, perhaps through another one."""
    f = tm.Function("drawn", params=[N], assume=f"N >= 1 and N <= {SIZE}")
    made = Expressions(choice, f)
    try:
        e = made.integer(choice.randint(1, 4))
        if choice.random() < 0.4:
            first = f.computation("first", {i: N, k: TERMS}, e)
            before = tm.select(i == 0, 100, first[i - 1, k])
            made.leaves = [first[i, k], first[N - 1 - i, k], before, *made.leaves[:1]]
            e = made.integer(choice.randint(1, 3))
        op = choice.choice([None, tm.sum, tm.min, tm.max])
        if op is None:
            c = f.computation("c", {i: N, k: TERMS}, e)
        else:
            over = {k: choice.choice([TERMS, (0, tm.minimum(i, TERMS))])}
            c = f.reduction("c", {i: N}, over=over, op=op, expr=e)
    except (DeclarationError, DTypeError):
        return None  # no integers: signed ones and uint64 together are floats
    f.outputs(c)
    return f if c.dtype.is_integer else None


@pytest.mark.parametrize("seed", range(100))
def test_a_range_has_every_value(seed):
    choice = random.Random(seed)
    f = random_function(choice)
    if f is None:
        return
    known = ranges_of(f.algorithm).of("c")
    arrays = {name: values(choice, each.dtype) for name, each in f.algorithm.inputs.items()}
    arrays["bounded"] = arrays["bounded"] % 15 - 3
    with np.errstate(all="ignore"):
        found = f.evaluate(**arrays, N=SIZE)
    if known is None:
        return
    line = sets.fixed(sets.as_set(known.values.range()), {"N": SIZE})
    some = np.random.default_rng(seed).choice(found.reshape(-1), 9)
    for value in {int(found.min()), int(found.max()), *map(int, some)}:
        inside = line.intersect(sets.singleton(line, [value]))
        assert not inside.is_empty(), (value, str(line), str(f.algorithm.computations["c"].expr))
