"""Random expressions over every type and operator, and the functions that compute many of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tiramisu_py as tm
from tiramisu_py.algorithm.expressions import Expr, call
from tiramisu_py.algorithm.types import STRONG, DType
from tiramisu_py.errors import DTypeError

i, j, i0, i1 = tm.iters("i j i0 i1")
N, S = tm.params("N S")

INTEGERS = tuple(dtype for dtype in STRONG if dtype.is_integer)
FLOATS = tuple(dtype for dtype in STRONG if dtype.is_float)
#: Functions of which the result is exact, so that it must be NumPy's to the bit.
EXACT = ("sqrt", "floor", "ceil", "rint", "trunc", "isnan", "isinf", "isfinite")
ROUNDED = (
    "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
    "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "erf",
)  # fmt: skip
ROUNDED_2 = ("arctan2", "hypot")
ARITHMETIC = ("+", "-", "*", "min", "max", "/", "//", "%")
LITERALS = (0, 1, 2, 3, 5, 7, 8, 16, 100, -1, -2, -7, 127, 0.5, -0.0, 1.5, 3.0, 1e-3, float("inf"), float("nan"), True)


def samples(dtype: DType, count: int, seed: int) -> Any:
    """Values of a type, with all the awkward ones among them."""
    rng = np.random.default_rng([seed, STRONG.index(dtype)])
    if dtype.is_bool:
        return rng.random(count) < 0.5
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        small = rng.integers(max(info.min, -9), 10, count).astype(dtype.numpy)
        large = rng.integers(info.min, info.max, count, dtype=dtype.numpy, endpoint=True)
        edges = np.array([info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, 0], dtype.numpy)
        return np.choose(rng.integers(0, 3, count), [small, large, rng.choice(edges, count)])
    whole = rng.integers(-9, 10, count)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-8, 65504.0, 3e9, -3e9, 1e19, 1e300, 128.0, -129.5, 256.0])
    spread = rng.normal(0, 1, count) * 10.0 ** rng.integers(-6, 7, count)
    with np.errstate(over="ignore"):
        return np.choose(
            rng.integers(0, 4, count), [whole, spread, rng.normal(0, 9, count), rng.choice(edges, count)]
        ).astype(dtype.numpy)


@dataclass(eq=False)
class Writer:
    """Makes expressions of the inputs of one function: arrays ``x_<type>``, ``y_<type>`` of N, ``w_<type>`` of 2N + 3
    (S elements apart), the index array ``g``, a scalar ``s_<type>`` of each type, the iterator and the parameter."""

    f: tm.Function
    rng: np.random.Generator
    arrays: dict[str, tm.Input] = field(default_factory=dict)
    scalars: dict[str, Expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for dtype in STRONG:
            self.arrays[f"x_{dtype}"] = self.f.input(f"x_{dtype}", dtype, [N])
            self.arrays[f"w_{dtype}"] = self.f.input(f"w_{dtype}", dtype, [2 * N + 3], strides=[S])
            self.scalars[f"s_{dtype}"] = self.f.scalar(f"s_{dtype}", dtype)
        self.arrays["g"] = self.f.input("g", tm.int32, [N], values=(0, N))

    def one(self, options: Sequence[Any]) -> Any:
        """One of several."""
        return options[int(self.rng.integers(len(options)))]

    def leaf(self, dtype: DType | None = None) -> Expr:
        """A value: mostly an element of an input, in one of the ways that vector code loads."""
        dtype = dtype or self.one(STRONG)
        x, w = self.arrays[f"x_{dtype}"], self.arrays[f"w_{dtype}"]
        form = int(self.rng.integers(12))
        forms: dict[int, Callable[[], Expr]] = {
            0: lambda: x[N - 1 - i],
            1: lambda: x[self.arrays["g"][i]],
            2: lambda: w[2 * i + 1],
            3: lambda: w[2 * N - 2 * i],
            4: lambda: w[i + 3],
            5: lambda: tm.select(i >= 2, x[i - 2], w[i]),
            6: lambda: tm.select(i + 3 < N, x[i + 3], self.literal_of(dtype)),
            7: lambda: self.scalars[f"s_{dtype}"],
            8: lambda: w[1],
        }
        return forms.get(form, lambda: x[i])()

    def literal_of(self, dtype: DType) -> Expr:
        """A literal in a type."""
        value = samples(dtype, 1, int(self.rng.integers(1000)))[0]
        return tm.cast(dtype, value.item() if dtype is not tm.bfloat16 else float(value))

    def weak(self) -> Any:
        """What adopts the type of what it meets."""
        return self.one([*LITERALS, i, N, i - 3, 2 * i + 1, i // 3, i % 5, N - i])

    def operand(self, depth: int) -> Any:
        """An expression, sometimes weak."""
        return self.weak() if self.rng.random() < 0.15 else self.value(depth)

    def value(self, depth: int) -> Expr:
        """An expression of at most this depth."""
        if depth <= 0:
            return self.leaf()
        while True:
            try:
                return self.node(depth - 1)
            except DTypeError:
                continue

    def of(self, dtype: DType, depth: int) -> Expr:
        """An expression of a type."""
        e = self.value(depth)
        return e if e.dtype == dtype else tm.cast(dtype, e)

    def condition(self, depth: int) -> Expr:
        """A condition, on values or on indices."""
        if self.rng.random() < 0.3:
            return self.one([i < N - 4, i % 3 == 1, 2 * i > N, (i > 3) & (i < N - 3), N > 5, i == 4])
        return self.of(tm.bool, depth)

    def node(self, depth: int) -> Expr:
        """An operator over expressions of at most this depth; raises `DTypeError` where their types have none."""
        kind = int(self.rng.integers(18))
        a, b = self.value(depth), self.operand(depth)
        if self.rng.random() < 0.4 and isinstance(b, Expr) and not b.dtype.weak:
            b = tm.cast(a.dtype, b)
        match kind:
            case 0 | 1 | 2 | 3 | 4:
                return self.arithmetic(a, b)
            case 5:
                return self.one(
                    [lambda: a < b, lambda: a <= b, lambda: a > b, lambda: a >= b, lambda: a == b, lambda: a != b]
                )()
            case 6 | 7:
                dtype = self.one([*INTEGERS, tm.bool])
                return self.bitwise(
                    self.of(dtype, depth), self.one([self.of(dtype, depth), self.of(self.one(INTEGERS), 0), 3, 1])
                )
            case 8:
                dtype = self.one(INTEGERS)
                count = self.one([self.of(dtype, 0), self.of(tm.uint8, 0), 0, 1, 3, 7, 8, 31, 64, 100])
                return self.one([lambda: self.of(dtype, depth) << count, lambda: self.of(dtype, depth) >> count])()
            case 9:
                return self.one([lambda: -a, lambda: abs(a), lambda: ~a])()
            case 10 | 11:
                return tm.cast(self.one(STRONG), a)
            case 12:
                return tm.select(self.condition(depth), a, b)
            case 13:
                return call(self.one(EXACT), a)
            case 14:
                power = self.one([0, 1, 2, 3, 5, self.of(tm.uint8, 0) & 7, i % 5])
                dtype = self.one(INTEGERS)
                return self.of(dtype, depth) ** (tm.cast(dtype, power) if isinstance(power, Expr) else power)
            case 15 | 16:
                return self.word(a, b, depth)
        dtype = self.one(FLOATS)
        return self.one([tm.fmod, tm.copysign])(self.of(dtype, depth), self.leaf(dtype))

    def arithmetic(self, a: Expr, b: Any) -> Expr:
        """An arithmetic operator."""
        if self.rng.random() < 0.2:
            a, b = b, a
        op = self.one(ARITHMETIC)
        named = {"min": tm.minimum, "max": tm.maximum}
        if op in named:
            return named[op](a, b)
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            raise DTypeError("two literals")
        return {
            "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b, "//": lambda: a // b,
            "%": lambda: a % b,
        }[op]()  # fmt: skip

    def word(self, a: Expr, b: Any, depth: int) -> Expr:
        """A short word. The bits of a float are those of an input: of a NaN that is computed, they are anyone's."""
        given, narrow = self.one(INTEGERS), self.one([tm.uint8, tm.uint16])
        number = self.one([dtype for dtype in INTEGERS if dtype.bits > 8])
        lerped = self.one([dtype for dtype in INTEGERS if dtype.bits < 64])
        return self.one(
            [
                lambda: tm.saturating_cast(self.one([*INTEGERS, *FLOATS]), a),
                lambda: tm.absd(a, b),
                lambda: tm.popcount(self.of(given, depth)),
                lambda: tm.lerp(self.of(lerped, depth), self.of(lerped, 0), self.of(narrow, depth)),
                lambda: tm.mux(self.one([i % 4, self.of(tm.uint8, 0) & 3]), [a, b, self.leaf()]),
                lambda: tm.reinterpret(f"float{number.bits}", self.of(number, depth)),
                lambda: tm.reinterpret(number, self.arrays[f"x_float{number.bits}"][i]),
            ]
        )()

    def comparison(self, a: Expr, b: Any) -> Expr:
        """A comparison."""
        return self.one(
            [lambda: a < b, lambda: a <= b, lambda: a > b, lambda: a >= b, lambda: a == b, lambda: a != b]
        )()

    def bitwise(self, a: Expr, b: Any) -> Expr:
        """A bitwise operator."""
        return self.one([lambda: a & b, lambda: a | b, lambda: a ^ b])()


def arguments(n: int, seed: int) -> dict[str, Any]:
    """The arguments of a function with a `Writer`, for N = n."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {"g": rng.integers(0, max(n, 1), n).astype(np.int32)}
    for dtype in STRONG:
        found[f"x_{dtype}"] = samples(dtype, n, seed)
        apart = 1 + seed % 3
        found[f"w_{dtype}"] = samples(dtype, apart * (2 * n + 2) + 1, seed + 1)[::apart]
        found[f"s_{dtype}"] = samples(dtype, 1, seed + 2)[0]
    return found


def scheduled(c: Any, rng: np.random.Generator) -> str:
    """A random schedule of the loop over i, and what it is."""
    kind = int(rng.integers(7))
    width = int(rng.choice([2, 4, 8, 16, 32, 64], p=[0.2, 0.3, 0.25, 0.15, 0.06, 0.04]))
    match kind:
        case 0:
            return "as declared"
        case 1:
            c.unroll(i, int(rng.integers(2, 5)))
            return "unrolled"
        case 2:
            c.reverse(i)
            c.vectorize(i, width)
            return f"reversed, vectors of {width}"
        case 3:
            c.split(i, 32, i0, i1)
            c.parallelize(i0)
            c.vectorize(i1, width)
            return f"tiles, vectors of {width}"
    c.vectorize(i, width)
    return f"vectors of {width}"


@dataclass(eq=False)
class Batch:
    """A function with many outputs, each a random expression under a random schedule."""

    f: tm.Function
    expressions: dict[str, Expr]
    schedules: dict[str, str]

    @classmethod
    def of(cls, seed: int, count: int, depth: int = 3) -> Batch:
        """The batch that a seed makes."""
        rng = np.random.default_rng(seed)
        f = tm.Function("batch", params=[N, S])
        writer = Writer(f, rng)
        expressions, schedules, outputs = {}, {}, []
        for number in range(count):
            name = f"o{number}"
            while len(outputs) == number:
                with suppress(DTypeError):  # literals that meet a type in which they do not fit
                    expressions[name] = writer.value(int(rng.integers(1, depth + 1)))
                    outputs.append(f.computation(name, {i: N}, expressions[name]))
        f.outputs(*outputs)
        for output in outputs:
            schedules[output.name] = scheduled(output, rng)
        return cls(f, expressions, schedules)

    def disagreements(self, kernel: Any, n: int, seed: int) -> list[str]:
        """What the kernel computes otherwise than `evaluate`, in words."""
        given = arguments(n, seed)
        want, got = self.f.evaluate(**given, N=n), kernel(**given, N=n)
        found = []
        for (name, e), wanted, result in zip(self.expressions.items(), want, got, strict=True):
            bad = np.flatnonzero(bits(wanted) != bits(result))
            if bad.size or wanted.dtype != result.dtype:
                k = int(bad[0])
                what = f"{name} ({self.schedules[name]}) = {e}: [{k}] is {result[k]!r}, not {wanted[k]!r}"
                found.append(f"{what} (N = {n}, {bad.size} bad)")
        return found


def bits(a: Any) -> Any:
    """The bits of each element, one pattern for all NaNs."""
    if a.dtype.kind in "biu":
        return a
    with np.errstate(all="ignore"):
        wide = a.astype(np.float64)
    return np.where(np.isnan(wide), np.uint64(0x7FF8000000000000), wide.view(np.uint64))
