"""Which buffers become variables, by the shape of the loops; `tests/backends` compares what they compute."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tests.programs.loop_ir.kernels import blur, matmul
from tests.programs.loop_ir.nodes import loops, of
from tests.programs.loop_ir.short_names import function, given, load, loop, result, size, store, temporary, updated, var
from tiramisu_py.algorithm.operators import sum_
from tiramisu_py.ir import (
    Allocate,
    Assign,
    Declare,
    If,
    LoopFunction,
    Node,
    Private,
)
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.program.loops import Combine, Parallel

N, M, i, j = size("N"), size("M"), var("i"), var("j")


def buffers(f: LoopFunction) -> list[Node]:
    return of(optimise(f).body, Allocate)


def test_a_buffer_that_only_constants_index_becomes_variables() -> None:
    body = temporary(
        "t", (4,), *(store("t", k, load("x", i + k)) for k in range(4)), store("y", i, load("t", 0) + load("t", 3))
    )
    found = optimise(function("f", "N", [given("x", N + 4), result("y", N)], loop("i", N, body))).body
    assert not of(found, Allocate)
    names = [d.variable for d in of(found, Declare) if isinstance(d, Declare)]
    assert names == ["t_0", "t_3"]  # what nothing reads is not even computed
    assert all(d.constant for d in of(found, Declare) if isinstance(d, Declare))


def test_a_buffer_with_any_other_index_stays_a_buffer() -> None:
    body = temporary("t", (4,), store("t", 0, 1.0), store("t", i % 4, 2.0), store("y", i, load("t", 0)))
    assert len(buffers(function("f", "N", [result("y", N)], loop("i", N, body)))) == 1


def test_a_buffer_that_threads_share_stays_a_buffer() -> None:
    update = updated("s", 0, sum_, load("x", i))
    private = (Private("s", sum_, Combine.PRIVATE),)
    body = temporary(
        "s",
        (1,),
        store("s", 0, 0.0),
        loop("i", N, update, tag=Parallel(), reductions=private),
        store("y", 0, load("s", 0)),
    )
    assert len(buffers(function("f", "N", [given("x", N), result("y", 1)], body))) == 1


def test_accumulators_are_declared_where_they_start_and_assigned_in_the_loop() -> None:
    body = temporary(
        "s", (1,), store("s", 0, 0.0), loop("j", M, updated("s", 0, sum_, load("x", i, j))), store("y", i, load("s", 0))
    )
    found = optimise(function("f", "N M", [given("x", N, M), result("y", N)], loop("i", N, body))).body
    (declared,) = of(found, Declare)
    assert isinstance(declared, Declare)
    assert (declared.variable, declared.constant) == ("s_0", False)
    assert len(of(found, Assign)) == 1


def test_full_tiles_use_no_array_and_partial_tiles_do() -> None:
    for f in (blur(), matmul()):
        (test,) = of(optimise(f).body, If)
        assert isinstance(test, If)
        assert test.otherwise is not None
        assert not of(test.then, Allocate)
        assert of(test.otherwise, Allocate)


def test_nothing_but_parallel_loops_is_tagged_afterwards() -> None:
    for f in (blur(), matmul()):
        assert all(isinstance(inner.tag, Parallel | None) for inner in loops(optimise(f).body))


def test_a_variable_that_only_a_dead_one_reads_goes_with_it() -> None:
    """Of two results only one is used: what the other is made of is not declared."""
    (n,) = tm.params("N")
    i, j, m = tm.iters("i j m")
    f = tm.Function("f", params=[n], assume="N >= 1")
    a = f.input("a", tm.int16, [n + 3])
    affine = tm.operator("affine", lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (1, 0), commutative=False)
    c = f.reduction("c", {i: 2, j: 1}, {m: j}, affine, (a[m], a[m + 1]))
    d = f.computation("d", {i: 2, j: 1}, c[i, j][0] + 1)
    e = f.computation("e", {i: n}, d[0, 0] + a[i])
    f.outputs(e)
    c.compute_at(d, j)
    c.store_in(tm.REGISTER)
    d.unroll(i)
    d.unroll(j)
    text = f.source()["f.c"]
    assert text.count("const int16_t c_0") == 1 and text.count("const int16_t d_0") == 1
    given = np.arange(8, dtype=np.int16)
    np.testing.assert_array_equal(f.compile()(given, N=5), f.evaluate(given, N=5))
