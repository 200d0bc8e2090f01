"""Loops in steps over arrays: the bits of one iteration after another, in far fewer steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import tiramisu_py as tm
from tests.interpret.test_machine import at, function, number, number_of, op, plus
from tests.language.test_masks_left_out import module_of
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.interpret import InterpretError, array_steps, run
from tiramisu_py.interpret.array_steps import ArraySteps
from tiramisu_py.interpret.machine import Interpreter
from tiramisu_py.ir import Block, For, Load, Private, Store
from tiramisu_py.program.loops import Combine, Parallel

N, M, K, H = tm.params("N M K H")
i, j, k, s, t = tm.iters("i j k s t")
#: A function, its arguments, and the least number of executions in a step, on average; 0: it runs one by one.
Program = Callable[[np.random.Generator], tuple[tm.Function, dict[str, Any], float]]


def floats(rng: np.random.Generator, *shape: int) -> Any:
    """Numbers whose sums depend on their order, some of which are special."""
    found = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    found.reshape(-1)[:3] = (np.inf, -0.0, 0.0)
    return found.astype(np.float32)


def product(rng: np.random.Generator) -> Any:
    f = tm.Function("product", params=[N, M, K])
    a, b = f.input("a", tm.float32, [N, K]), f.input("b", tm.float32, [K, M])
    f.outputs(f.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j]))
    return f, {"a": floats(rng, 9, 13), "b": floats(rng, 13, 11)}, 90


def tiled_product(rng: np.random.Generator) -> Any:
    f, given, _ = product(rng)
    tm.recipes.matmul(f["c"])
    return f, given, 30


def dot(rng: np.random.Generator) -> Any:
    f = tm.Function("dot", params=[N])
    a, b = f.input("a", tm.float32, [N]), f.input("b", tm.float32, [N])
    f.outputs(f.reduction("c", {}, {k: N}, tm.sum, a[k] * b[k]))
    return f, {"a": floats(rng, 301), "b": floats(rng, 301)}, 150


def ragged_sums(rng: np.random.Generator) -> Any:
    f = tm.Function("ragged", params=[N])
    a = f.input("a", tm.float32, [N, N])
    f.outputs(f.reduction("c", {i: N}, {j: N}, tm.sum, a[i, j], where=(j <= i)))
    return f, {"a": floats(rng, 23, 23)}, 4


def maxima(rng: np.random.Generator) -> Any:
    f = tm.Function("maxima", params=[N, M])
    a = f.input("a", tm.float32, [N, M])
    f.outputs(f.reduction("c", {i: N}, {j: M}, tm.max, tm.select(a[i, j] > 0, a[i, j], -a[i, j] * 0)))
    return f, {"a": floats(rng, 7, 19)}, 6


def overflow(rng: np.random.Generator) -> Any:
    f = tm.Function("overflow", params=[N, M])
    a = f.input("a", tm.int8, [N, M])
    f.outputs(f.reduction("c", {i: N}, {j: M}, tm.product, a[i, j] * a[i, j] + 1))
    return f, {"a": rng.integers(-128, 128, (9, 12)).astype(np.int8)}, 8


def time_steps(rng: np.random.Generator) -> Any:
    f = tm.Function("steps", params=[N, M])
    a = f.input("a", tm.float32, [M])

    def value(u: Any) -> Any:
        inner = (u[t - 1, i - 1] + u[t - 1, i] * 2 + u[t - 1, i + 1]) * 0.25
        return tm.select(t == 0, a[i], tm.select((i >= 1) & (i < M - 1), inner, u[t - 1, i]))

    f.outputs(f.computation("u", {t: N, i: M}, value))
    return f, {"a": floats(rng, 40), "N": 6}, 15


def serial(rng: np.random.Generator) -> Any:
    f = tm.Function("serial", params=[N])
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("u", {i: N}, lambda u: tm.select(i == 0, a[0], u[i - 1] * 0.5 + a[i])))
    return f, {"a": floats(rng, 60)}, 0


def waves(rng: np.random.Generator) -> Any:
    f = tm.Function("waves", params=[N, M])
    a = f.input("a", tm.float32, [N, M])

    def value(u: Any) -> Any:
        return tm.select((i >= 1) & (j >= 1), u[i - 1, j] * 0.5 + u[i, j - 1] * 0.25 + a[i, j], a[i, j])

    f.outputs(f.computation("u", {i: N, j: M}, value))
    return f, {"a": floats(rng, 17, 19)}, 5


def scatter(rng: np.random.Generator) -> Any:
    f = tm.Function("scatter", params=[N, M])
    at_ = f.input("at", tm.int32, [M], values=(0, N))
    a = f.input("a", tm.float32, [M])
    f.outputs(f.reduction("c", {i: N}, {k: M}, tm.sum, a[k], where=(at_[k] == i)))
    return f, {"at": rng.integers(0, 6, 50).astype(np.int32), "a": floats(rng, 50), "N": 6}, 4


def functions(rng: np.random.Generator) -> Any:
    f = tm.Function("functions", params=[N])
    a = f.input("a", tm.float32, [N])
    f.outputs(f.computation("c", {i: N}, tm.exp(a[i]) + tm.sqrt(tm.absolute(a[i])) * tm.sin(a[i])))
    return f, {"a": rng.standard_normal(97).astype(np.float32)}, 90


def lanes(rng: np.random.Generator) -> Any:
    f, given, _ = ragged_sums(rng)
    f["c"].update.vectorize(j, 8, combine=tm.PRIVATE)
    return f, given, 1


def threads(rng: np.random.Generator) -> Any:
    f, given, _ = dot(rng)
    f["c"].update.parallelize(k, combine=tm.PRIVATE)
    return f, given, 100


PROGRAMS: list[Program] = [
    product, tiled_product, dot, ragged_sums, maxima, overflow, time_steps, serial, waves, scatter, functions, lanes,
    threads,
]  # fmt: skip


class Watched(ArraySteps):
    """Steps over arrays that are kept for a look at them; iterations run one after another if none are `wanted`."""

    made: ClassVar[list[Watched]] = []
    wanted = True

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)

    def ran(self, node: Any, frame: Any, iterations: Any = None) -> bool:
        return self.wanted and super().ran(node, frame, iterations)


class OneByOne(Watched):
    """Iterations one after another."""

    wanted = False


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_bits_are_those_of_one_iteration_after_another(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    f, given, least = program(np.random.default_rng(5))
    results = []
    for how in (OneByOne, Watched):
        monkeypatch.setattr("tiramisu_py.interpret.ArraySteps", how)
        results.append(f.evaluate(**given, as_scheduled=True, threads=2))
    steps = Watched.made[-1]
    assert results[0].tobytes() == results[1].tobytes()
    assert (steps.executions == 0) == (least == 0)
    assert steps.executions >= least * steps.steps
    np.testing.assert_allclose(results[1], f.evaluate(**given), rtol=1e-4)


def blocks(on: Any) -> tuple[tm.Function, dict[str, Any]]:
    """The product of the example, a block program."""
    f, run_of_it = module_of("gemm").product()
    if on is not None:
        tm.recipes.blocks(run_of_it, on=on)
    rng = np.random.default_rng(1)
    return f, {
        name: rng.standard_normal(shape).astype(np.float32) for name, shape in (("A", (65, 50)), ("B", (50, 40)))
    }


@pytest.mark.parametrize("on", [None, tm.cores()], ids=["declared", "cores"])
def test_a_product_of_65_by_40_by_50_takes_few_steps(on: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f, given = blocks(on)
    monkeypatch.setattr("tiramisu_py.interpret.ArraySteps", Watched)
    one_by_one: list[str] = []
    single = Interpreter.visit_store

    def counted(self: Interpreter, node: Store, frame: Any) -> Any:
        one_by_one.append(node.statement)
        return single(self, node, frame)

    monkeypatch.setattr(Interpreter, "visit_store", counted)
    result = f.evaluate(**given, as_scheduled=True)
    steps = Watched.made[-1]
    assert steps.executions > 65 * 40 * 50
    assert steps.steps + len(one_by_one) < 2000
    wanted = np.zeros((65, 40), np.float32)
    for term in range(50):
        wanted += given["A"][:, term, None] * given["B"][None, term]
    assert result.tobytes() == wanted.tobytes()


def in_steps(body: Any, *, more: int = 0, **arrays: Any) -> ArraySteps:
    """What a function of N = 32 over arrays of N elements did."""
    steps = ArraySteps()
    run(function(body, x=(more, "inout")), arrays, {"N": 32}, array_steps=steps)
    return steps


def stored(index: Any, value: Any, update: Any = None) -> Store:
    return Store("x", (index,), value, "x", update)


def over(body: Any, upper: Any = None, tag: Any = None) -> For:
    return For("i", number(0), at("N") if upper is None else upper, body, tag=tag)


def test_loads_of_elements_that_others_store_are_in_later_or_earlier_steps() -> None:
    """Each iteration reads what the eighth one after it stores: that has to wait."""
    x = np.arange(40.0)
    body = Block((stored(at("i"), op("+", Load("x", (plus(at("i"), 8),), ty.float64), number_of(1.0))),))
    steps = in_steps(over(body), more=8, x=x)
    np.testing.assert_array_equal(x[:32], np.arange(8.0, 40) + 1)
    assert (steps.steps, steps.executions) == (1 + 31 // 8, 32)


def test_stores_to_one_element_are_in_their_order() -> None:
    x = np.arange(1.0, 33)
    doubled = op("*", number_of(2.0), Load("x", (at("i"),), ty.float64))
    steps = in_steps(over(stored(op("%", at("i"), number(5)), doubled)), x=x)
    y = np.arange(1.0, 33)
    for n in range(32):
        y[n % 5] = 2.0 * y[n]
    np.testing.assert_array_equal(x, y)
    assert steps.executions == 32


def test_a_store_outside_of_an_array_is_found_at_its_iteration() -> None:
    x = np.zeros(32)
    with pytest.raises(InterpretError, match=r"accesses x\[32\], outside"):
        in_steps(over(stored(plus(at("i"), 1), number_of(1.0))), x=x)
    assert x.tolist() == [0.0] + [1.0] * 31


def test_concurrent_iterations_add_to_copies_in_their_shares() -> None:
    """Sums whose shares are those of two threads, each in one step."""
    x = np.array([1.0] + [0.0] * 31)
    add = stored(number(0), op("+", Load("x", (number(0),), ty.float64), number_of(0.1)), sum_)
    loop = For(
        "i",
        number(0),
        at("N"),
        add,
        tag=Parallel(combine=Combine.PRIVATE),
        reductions=(Private("x", sum_, Combine.PRIVATE),),
    )
    steps = ArraySteps()
    run(function(loop, x=(0, "inout")), {"x": x}, {"N": 32}, threads=2, array_steps=steps)
    share = np.add.accumulate(np.array([0.0] + [0.1] * 16))[-1]
    assert x[0] == 1.0 + share + share
    assert (steps.steps, steps.executions) == (2, 32)


def test_lanes_that_a_mask_leaves_out_store_nothing_where_the_nest_is_run_in_parts(monkeypatch: Any) -> None:
    """The loop over rows is too long for one run, so that masks are around the loops that are."""
    f = tm.Function("masked", params=[N, M, K, H], assume="H >= 1 and H < M and N >= 1 and K >= 1")
    a, b = f.input("a", tm.float32, [N, K]), f.input("b", tm.float32, [K, M])
    c = f.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j])
    f.outputs(c)
    c.init.reorder(i, j)
    for part in c.update.separate_at(j, [H]):
        part.reorder(i, j, k).vectorize(j, 8, remainder="mask")
    rng = np.random.default_rng(0)
    given = {
        "a": rng.integers(-4, 5, (6, 30)).astype(np.float32),
        "b": rng.integers(-4, 5, (30, 32)).astype(np.float32),
    }
    monkeypatch.setattr(array_steps, "MOST", 500)
    np.testing.assert_array_equal(f.evaluate(**given, H=13, as_scheduled=True), given["a"] @ given["b"])
