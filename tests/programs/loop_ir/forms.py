"""Every form that a vector loop can take, each with what NumPy (or a plain loop) gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.programs.loop_ir.short_names import (
    given,
    load,
    loop,
    number,
    result,
    scalar,
    size,
    store,
    temporary,
    updated,
    var,
)
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Binary, Cast, Const, Expr, Iter, call, select
from tiramisu_py.algorithm.operators import Operator, max_, min_, product, sum_
from tiramisu_py.algorithm.types import DType, float32
from tiramisu_py.ir import ArrayArgument, If, Let, Node, Private
from tiramisu_py.program.loops import Combine, Parallel, Tag, Unroll, Vector

N, M = size("N"), size("M")
i, j, r = var("i"), var("j"), var("r")
FACTOR, factor = scalar("factor")
larger = Operator("larger", lambda a, b: select(a < b, b, a), lambda dtype: -1e30)


@dataclass(frozen=True)
class Form:
    """Loops that write the array `name`, of the given extents, and the array that they should leave."""

    name: str
    extents: tuple[Expr | int, ...]
    nodes: tuple[Node, ...]
    want: Callable[[dict[str, Any], Any], Any]
    dtype: DType = float32

    @property
    def argument(self) -> ArrayArgument:
        return result(self.name, *self.extents, dtype=self.dtype, is_input=True)


def inputs() -> list[Any]:
    """The arguments that forms read: x, m, a permutation p, counts q, a factor."""
    return [
        given("x", 3 * N + 8),
        given("m", N, M),
        given("p", N, dtype=ty.int32),
        given("q", N, dtype=ty.int64),
        FACTOR,
    ]


def samples(n: int, m: int, seed: int = 0) -> dict[str, Any]:
    """Values for `inputs`."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=3 * n + 8).astype(np.float32),
        "m": rng.normal(size=(n, m)).astype(np.float32),
        "p": rng.permutation(n).astype(np.int32),
        "q": rng.integers(0, m + 1, n).astype(np.int64),
        "factor": np.float32(1.7),
    }


def vector(form: str, value: Expr, width: int = 8) -> tuple[Node, ...]:
    """``form[i] = value`` over a vector loop."""
    return (loop("i", N, store(form, i, value), tag=Vector(width)),)


def reduced(form: str, operator: Operator, term: Expr, width: int = 8, tag: Tag | None = None) -> tuple[Node, ...]:
    """``form[0] = operator(form[0], term)`` over a vector loop."""
    private = (Private(form, operator, Combine.PRIVATE),)
    tag = tag or Vector(width, Combine.PRIVATE)
    return (loop("i", N, updated(form, 0, operator, term), tag=tag, reductions=private),)


def at(e: Expr) -> Expr:
    """A value used as an index."""
    return Cast(e, ty.int64)


def scan(term: Callable[[dict[str, Any], int], Any]) -> Callable[[dict[str, Any], Any], Any]:
    """What a loop over i computes, one element at a time."""

    def want(data: dict[str, Any], before: Any) -> Any:
        for k in range(len(data["p"])):
            before[k] = term(data, k)
        return before

    return want


def _row_sums(data: dict[str, Any], before: Any) -> Any:
    total = np.zeros(len(data["p"]), np.float32)
    for column in data["m"].T:
        total += column
    return total


def _counted_sums(data: dict[str, Any], before: Any) -> Any:
    total = np.zeros(len(data["p"]), np.float32)
    for row, count in enumerate(data["q"]):
        for k in range(count):
            total[row] += data["m"][row, k]
    return total


def _assigned(data: dict[str, Any], before: Any, where: Any, values: Any) -> Any:
    before[where] = values
    return before


def _x(data: dict[str, Any], offset: int = 0, stride: int = 1) -> Any:
    n = len(data["p"])
    return data["x"][offset : offset + stride * n : stride][:n]


def _close(data: dict[str, Any], before: Any, total: Any) -> Any:
    before[0] = total
    return before


_twice = Let("t", load("x", i) + load("x", i + 1), store("let", i, Iter("t", float32) * Iter("t", float32)))
_row = temporary(
    "row",
    (M,),
    loop("j", M, store("row", j, load("m", i, j) * 2.0)),
    loop("j", M, updated("buffered", i, sum_, load("row", j) + load("row", M - 1 - j))),
)
_half = store("half", i, load("x", i), ty.float16)

FORMS = [
    Form(
        "contiguous",
        (N,),
        vector("contiguous", load("x", i) * load("x", i + 1) + load("x", i + 2)),
        lambda d, b: _x(d) * _x(d, 1) + _x(d, 2),
    ),
    Form(
        "broadcast",
        (N,),
        vector("broadcast", factor * load("x", 0) + load("x", i)),
        lambda d, b: d["factor"] * d["x"][0] + _x(d),
    ),
    Form("uniform", (N,), vector("uniform", factor), lambda d, b: np.full_like(b, d["factor"])),
    Form("reversed", (N,), vector("reversed", load("x", N - 1 - i)), lambda d, b: _x(d)[::-1]),
    Form("strided", (N,), vector("strided", load("x", 3 * i + 2)), lambda d, b: _x(d, 2, 3)),
    Form(
        "gathered", (N,), vector("gathered", load("x", at(load("p", i, dtype=ty.int32)))), lambda d, b: d["x"][d["p"]]
    ),
    Form(
        "quotient",
        (N,),
        vector("quotient", load("x", i // 3) + load("x", i % 5)),
        lambda d, b: d["x"][np.arange(len(b)) // 3] + d["x"][np.arange(len(b)) % 5],
    ),
    Form(
        "column",
        (N, 3),
        (loop("i", N, store("column", (i, 1), load("x", i)), tag=Vector(4)),),
        lambda d, b: _assigned(d, b, (slice(None), 1), _x(d)),
    ),
    Form(
        "backwards",
        (N,),
        (loop("i", N, store("backwards", N - 1 - i, load("x", i)), tag=Vector(8)),),
        lambda d, b: _x(d)[::-1],
    ),
    Form(
        "scattered",
        (N,),
        (loop("i", N, store("scattered", at(load("p", i, dtype=ty.int32)), load("x", i)), tag=Vector(8)),),
        lambda d, b: _assigned(d, b, d["p"], _x(d)),
    ),
    Form(
        "ramp",
        (N,),
        vector("ramp", Cast(i * 3 - 1, float32)),
        lambda d, b: (np.arange(len(b)) * 3 - 1).astype(np.float32),
    ),
    Form(
        "shifted_start",
        (N,),
        (
            loop(
                "i",
                N,
                store("shifted_start", i, load("x", i)),
                lower=Binary("min", number(3), N, ty.int64),
                tag=Vector(8),
            ),
        ),
        lambda d, b: np.concatenate([b[:3], _x(d)[3:]]),
    ),
    Form(
        "empty_range",
        (N,),
        (loop("i", N - 5, store("empty_range", i, load("x", i)), lower=number(2), tag=Vector(4)),),
        lambda d, b: _assigned(d, b, slice(2, max(len(b) - 5, 2)), _x(d)[2 : max(len(b) - 5, 2)]),
    ),
    Form("let", (N,), (loop("i", N, _twice, tag=Vector(16)),), lambda d, b: (_x(d) + _x(d, 1)) ** 2),
    Form(
        "inner_loop",
        (N,),
        (
            loop(
                "i",
                N,
                store("inner_loop", i, 0.0),
                loop("j", M, updated("inner_loop", i, sum_, load("m", i, j))),
                tag=Vector(8),
            ),
        ),
        _row_sums,
    ),
    Form(
        "counted",
        (N,),
        (
            loop(
                "i",
                N,
                store("counted", i, 0.0),
                loop("j", load("q", i, dtype=ty.int64), updated("counted", i, sum_, load("m", i, j))),
                tag=Vector(8),
            ),
        ),
        _counted_sums,
    ),
    Form(
        "buffered",
        (N,),
        (loop("i", N, store("buffered", i, 0.0), _row, tag=Vector(8)),),
        scan(lambda d, k: _buffered(d["m"][k])),
    ),
    Form(
        "uniform_if",
        (N,),
        (loop("i", N, If(M > 2, store("uniform_if", i, load("x", i)), store("uniform_if", i, 5.0)), tag=Vector(8)),),
        lambda d, b: _x(d) if d["m"].shape[1] > 2 else np.full_like(b, 5),
    ),
    Form(
        "guarded_if",
        (N,),
        (loop("i", N, If(i < M, store("guarded_if", i, load("m", 0, i))), tag=Vector(8)),),
        scan(lambda d, k: d["m"][0, k] if k < d["m"].shape[1] else -1),
    ),
    Form(
        "guarded_select",
        (N,),
        vector("guarded_select", select(i < M, load("m", 0, i), load("x", i))),
        scan(lambda d, k: d["m"][0, k] if k < d["m"].shape[1] else d["x"][k]),
    ),
    Form(
        "free_select",
        (N,),
        vector("free_select", select(load("x", i) < load("x", i + 1), load("x", i + 1), 0.5 * load("x", i))),
        lambda d, b: np.where(_x(d) < _x(d, 1), _x(d, 1), np.float32(0.5) * _x(d)),
    ),
    Form("half", (N,), (loop("i", N, _half, tag=Vector(8)),), lambda d, b: _x(d).astype(np.float16), ty.float16),
    Form(
        "function",
        (N,),
        vector("function", call("sqrt", call("abs", load("x", i)))),
        lambda d, b: np.sqrt(np.abs(_x(d))),
    ),
    Form(
        "in_place",
        (N,),
        (loop("i", N, updated("in_place", i, sum_, load("x", i) * factor), tag=Vector(8)),),
        lambda d, b: b + _x(d) * d["factor"],
    ),
    Form(
        "masked",
        (N,),
        (loop("i", N, store("masked", i, load("x", i) > 0.0, ty.bool_), tag=Vector(16)),),
        lambda d, b: _x(d) > 0,
        ty.bool_,
    ),
    Form(
        "threads",
        (N, M),
        (loop("i", N, loop("j", M, store("threads", (i, j), load("m", i, j) * 2.0), tag=Vector(4)), tag=Parallel()),),
        lambda d, b: d["m"] * 2,
    ),
    Form(
        "unrolled",
        (N, M),
        (loop("j", M, loop("i", N, store("unrolled", (i, j), load("m", i, j) + 1.0), tag=Unroll(4))),),
        lambda d, b: d["m"] + np.float32(1),
    ),
]


def _buffered(row: Any) -> Any:
    total = np.float32(0)
    for a, b in zip(row * 2, (row * 2)[::-1], strict=True):
        total += a + b
    return total


def _lanes(
    values: Any, width: int, start: Any, combine: Callable[[Any, Any], Any], neutral: float, masked: bool
) -> Any:
    """A reduction in `width` partial results, combined by halves, then the rest; if `masked`, the rest is in lanes."""
    whole = len(values) // width * width
    partial = np.full(width, neutral, values.dtype)
    for k in range(0, whole, width):
        partial = combine(partial, values[k : k + width])
    rest = values[whole:]
    if masked:
        partial[: len(rest)], rest = combine(partial[: len(rest)], rest), rest[:0]
    while len(partial) > 1:
        partial = combine(*np.split(partial, 2))
    for value in [*partial, *rest]:
        start = combine(start, value)
    return start


def _reduction(
    width: int, combine: Callable[[Any, Any], Any], neutral: float, masked: bool = False
) -> Callable[[dict[str, Any], Any], Any]:
    return lambda d, b: _close(d, b, _lanes(_x(d), width, b[0], combine, neutral, masked))


REDUCTIONS = [
    Form("total", (1,), reduced("total", sum_, load("x", i), 16), _reduction(16, np.add, -0.0)),
    Form("times", (1,), reduced("times", product, load("x", i), 4), _reduction(4, np.multiply, 1)),
    Form("least", (1,), reduced("least", min_, load("x", i), 8), _reduction(8, np.minimum, np.inf)),
    Form("most", (1,), reduced("most", max_, load("x", i), 2), _reduction(2, np.maximum, -np.inf)),
    Form(
        "own", (1,), reduced("own", larger, load("x", i), 8), _reduction(8, lambda a, b: np.where(a < b, b, a), -1e30)
    ),
    Form(
        "counts",
        (4,),
        (
            loop(
                "i",
                N,
                updated("counts", load("q", i, dtype=ty.int64) % 4, sum_, Const(1, ty.int32), ty.int32),
                tag=Vector(8, Combine.PRIVATE),
                reductions=(Private("counts", sum_, Combine.PRIVATE),),
            ),
        ),
        lambda d, b: b + np.bincount(d["q"] % 4, minlength=4).astype(np.int32),
        ty.int32,
    ),
    Form(
        "columns",
        (M,),
        (
            loop(
                "i",
                N,
                loop("j", M, updated("columns", j, sum_, load("m", i, j))),
                tag=Vector(8, Combine.PRIVATE),
                reductions=(Private("columns", sum_, Combine.PRIVATE),),
            ),
        ),
        lambda d, b: _sum_rows(d["m"], b),
    ),
]


#: The same where the last terms are one more vector, under a mask: sums and products have another order.
MASKED_REDUCTIONS = [
    replace(REDUCTIONS[0], want=_reduction(16, np.add, -0.0, masked=True)),
    replace(REDUCTIONS[1], want=_reduction(4, np.multiply, 1, masked=True)),
    *REDUCTIONS[2:],
]


def _sum_rows(m: Any, before: Any) -> Any:
    for row in m:
        before = before + row
    return before
