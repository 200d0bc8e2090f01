"""Memory of arrays of an iteration: allocated once for a loop, by each thread once, and never where sizes differ."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.passes.blame import wrong_pass
from tests.programs.loop_ir.short_names import function, given, load, loop, result, store, temporary, var
from tiramisu_py.interpret import InterpretError, run
from tiramisu_py.ir import Allocate, BeginArray, For, MemoryBlock, Node
from tiramisu_py.ir.rewriting import walk, with_children
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.program.loops import Parallel

N, M = tm.params("N M")
i, j, i0, i1 = tm.iters("i j i0 i1")


def rows(level: tm.Iter, parallel: bool = False) -> tm.Function:
    """Rows that are computed in an iteration of `level`, and read from right to left."""
    f = tm.Function("rows", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N, M])
    row = f.computation("row", {i: N, j: M}, a[i, j] * 2)
    out = f.computation("out", {i: N, j: M}, row[i, M - 1 - j] + 1)
    f.outputs(out)
    out.split(i, 4, i0, i1)
    row.compute_at(out, level)
    if parallel:
        out.parallelize(i0)
    return f


def around(node: Node, kind: type, outer: tuple[Node, ...] = ()) -> list[tuple[Node, ...]]:
    """The statements around each statement of a class, outermost first, with that one as the last."""
    found = [(*outer, node)] if isinstance(node, kind) else []

    def into(child: Node) -> Node:
        found.extend(around(child, kind, (*outer, node)))
        return child

    with_children(node, into)
    return found


def loops(nodes: tuple[Node, ...]) -> list[str]:
    return [node.variable for node in nodes if isinstance(node, For)]


def test_memory_is_in_front_of_the_outermost_loop_in_which_its_size_is_the_same() -> None:
    body = rows(i1).show("lowered").body
    ((*outer, block),) = around(body, MemoryBlock)
    assert isinstance(block, MemoryBlock) and block.lasting and block.arrays == ("row",) and loops(tuple(outer)) == []
    (inner,) = around(body, BeginArray)
    assert loops(inner) == ["i0", "i1"]
    assert not any(isinstance(node, Allocate) for node in walk(body))


def test_memory_of_threads_is_directly_in_the_parallel_loop() -> None:
    for level in (i0, i1):
        ((*outer, block),) = around(rows(level, parallel=True).show("lowered").body, MemoryBlock)
        loop = outer[-1]
        assert isinstance(loop, For) and isinstance(loop.tag, Parallel) and loop.body is block


def test_memory_whose_size_changes_stays_in_the_loop_that_changes_it() -> None:
    row = temporary(
        "row",
        (var("a") + 1,),
        loop("j", var("a") + 1, store("row", var("j"), load("x", var("j")))),
        store("y", var("a"), load("row", var("a"))),
    )
    nest = loop("a", N, loop("b", M, row))
    made = optimise(function("f", "N M", [given("x", N), result("y", N)], nest))
    ((*outer, _),) = around(made.body, MemoryBlock)
    assert loops(tuple(outer)) == ["a"]
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    run(made, {"x": x, "y": y}, {"N": 5, "M": 2})
    np.testing.assert_array_equal(y, x)
    directly = optimise(function("f", "N", [given("x", N), result("y", N)], loop("a", N, row)))
    assert any(isinstance(node, Allocate) for node in walk(directly.body))


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("level", [i0, i1], ids=str)
def test_loops_that_keep_memory_compute_what_the_algorithm_says(level: tm.Iter, parallel: bool) -> None:
    f = rows(level, parallel)
    assert wrong_pass(f, {"N": 9, "M": 3}, {"N": 1, "M": 1}) == ""
    a = np.random.default_rng(0).random((13, 37), dtype=np.float32)
    np.testing.assert_array_equal(f.compile(threads=2)(a), a[:, ::-1] * 2 + 1)


def test_an_array_has_no_values_from_the_iteration_before() -> None:
    """The machine finds a loop that reads what another iteration left in the memory, as if each had its own."""
    whole = rows(i1).show("lowered")

    def only_first(node: Node) -> Node:
        changed = with_children(node, only_first)
        inner = isinstance(changed, For) and changed.variable == "j" and "row" in str(changed.body)
        return replace(changed, upper=changed.upper - 1) if inner and isinstance(changed, For) else changed

    wrong = replace(whole, body=only_first(whole.body))
    a, out = np.ones((5, 4), np.float32), np.ones((5, 4), np.float32)
    run(whole, {"a": a, "out": out}, {"N": 5, "M": 4})
    with pytest.raises(InterpretError, match=r"row"):
        run(wrong, {"a": a, "out": out}, {"N": 5, "M": 4})


#: A program that calls the function on ones, and prints the calls of the allocator, the most blocks at a time, what is
#: not free, and a value.
CALLER = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
static int calls, now, most, fails;
static void *counted(size_t alignment, size_t size) {
  int number;
  #pragma omp atomic capture
  number = ++calls;
  if (number == fails) return NULL;
  #pragma omp critical
  most = ++now > most ? now : most;
  return aligned_alloc(alignment, size);
}
static void freed(void *memory) {
  if (memory == NULL) return;
  #pragma omp critical
  now--;
  free(memory);
}
#define aligned_alloc counted
#define free freed
#include "rows.c"
enum { N = 40, M = 50 };
int main(int count, char **words) {
  static float a[N * M], out[N * M];
  for (int k = 0; k < N * M; k++) a[k] = 1;
  fails = count > 1 ? atoi(words[1]) : 0;
  const int code = rows(N, M, a, out);
  printf("%d %d %d %d %g %s", code, calls, most, now, out[N * M - 1], rows_last_error());
  return 0;
}
"""


def caller(f: tm.Function, folder: Path) -> Any:
    """What runs the caller with some arguments on two threads, and returns what it prints."""
    for name, text in {**f.source(), "caller.c": CALLER}.items():
        (folder / name).write_text(text)
    command = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-fopenmp", "caller.c", "-o", "caller", "-lm"]
    subprocess.run(command, cwd=folder, check=True)

    def called(*words: str) -> str:
        given = {"OMP_NUM_THREADS": "2"}
        return subprocess.run([folder / "caller", *words], env=given, capture_output=True, text=True, check=True).stdout

    return called


def test_one_allocation_serves_all_iterations(tmp_path: Path) -> None:
    called = caller(rows(i1), tmp_path)
    assert called() == "0 1 1 0 3 "
    assert called("1") == "5 1 0 0 0 rows: there is no memory for the temporary array row"


def test_each_thread_allocates_once_and_one_without_memory_fails_the_call(tmp_path: Path) -> None:
    called = caller(rows(i1, parallel=True), tmp_path)
    assert called().split(" ", 2)[:2] == ["0", "2"]
    for fails in "12":
        code, calls, _, left, _, said = called(fails).split(" ", 5)
        assert (code, calls, left) == ("5", "2", "0")
        assert said == "rows: there is no memory for the temporary array of a thread"


def test_memory_of_one_nest_is_free_before_the_next_one(tmp_path: Path) -> None:
    f = tm.Function("rows", params=[N, M], assume="N >= 1 and M >= 1")
    last: tm.Computation | tm.Input = f.input("a", tm.float32, [N, M])
    for name in ("first", "out"):
        row = f.computation(f"{name}_row", {i: N, j: M}, last[i, j] * 2)
        both = f.computation(f"{name}_both", {i: N, j: M}, row[i, M - 1 - j] + row[i, j])
        last = f.computation(name, {i: N, j: M}, both[i, M - 1 - j] + row[i, j])
        row.compute_at(last, i)
        both.compute_at(last, i)
    f.outputs(last)
    code, calls, most, left, value, _ = caller(f, tmp_path)().split(" ", 5)
    assert (code, calls, most, left, value) == ("0", "5", "3", "0", "36")
    assert f.cost("memory", N=40, M=50).peak == 4 * (40 * 50 + 2 * 50)
