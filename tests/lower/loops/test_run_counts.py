"""Never N x E: the executions of ten programs over runs, counted in their loops under each command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lower.loops.test_run_bounds import value
from tiramisu_py.ir import Allocate, Block, For, If, Let, LoopFunction, Node, Store
from tiramisu_py.lower.lowering import lower

N, E = tm.params("N E")
n, m, p, q, k, d, j, p0, p1, n0, n1 = tm.iters("n m p q k d j p0 p1 n0 n1")
F = 4
SIZES = {"N": 60, "E": 150}
NUMBERS = np.random.default_rng(1)
ROWS = np.sort(np.concatenate([[0], NUMBERS.integers(0, 151, 59), [150]])).astype(np.int32)
ROWS[20:30] = ROWS[20]  # empty runs, and a long one after them
COLUMN = NUMBERS.integers(0, 60, 150).astype(np.int32)
COLUMN[::2] = 3
INTO = tm.inverse(COLUMN, 60)
OF, INTO_OF = (np.repeat(np.arange(60), np.diff(start)) for start in (ROWS, INTO[0]))
Made = tuple[tm.Function, Any]


def started(name: str) -> tuple[tm.Function, Any, Any]:
    f = tm.Function(name, params=[N, E], assume="N >= 1")
    return f, f.segments("rows", N, of=E), f.input("column", tm.int32, [E], values=(0, N))


def arrays(f: tm.Function, **shapes: Any) -> list[Any]:
    return [f.input(name, tm.float32, shape) for name, shape in shapes.items()]


def typed_product() -> Made:
    f, rows, column = started("typed_product")
    h, w = arrays(f, h=[N, F], w=[N, F, F])
    return f, f.reduction("y", {n: N, p: rows[n], d: F}, {k: F}, tm.sum, h[column[p], k] * w[n, k, d])


def scaled() -> Made:
    f, rows, _ = started("scaled")
    a, s = arrays(f, a=[E], s=[N])
    return f, f.computation("y", {n: N, p: rows[n]}, a[p] * s[n])


def product_with_vector() -> Made:
    f, rows, column = started("product_with_vector")
    a, x = arrays(f, a=[E], x=[N])
    return f, f.reduction("y", {n: N}, {p: rows[n]}, tm.sum, a[p] * x[column[p]])


def product_with_matrix() -> Made:
    f, rows, column = started("product_with_matrix")
    a, x = arrays(f, a=[E], x=[N, F])
    return f, f.reduction("y", {n: N, d: F}, {p: rows[n]}, tm.sum, a[p] * x[column[p], d])


def sampled_product() -> Made:
    f, rows, column = started("sampled_product")
    x, z = arrays(f, x=[N, F], z=[N, F])
    return f, f.reduction("y", {n: N, p: rows[n]}, {d: F}, tm.sum, x[n, d] * z[column[p], d])


def softmax() -> Made:
    f, rows, _ = started("softmax")
    (a,) = arrays(f, a=[E])
    top = f.reduction("top", {n: N}, {p: rows[n]}, tm.max, a[p])
    e = f.computation("e", {n: N, p: rows[n]}, tm.exp(a[p] - top[n]))
    total = f.reduction("total", {n: N}, {p: rows[n]}, tm.sum, e[n, p])
    return f, f.computation("y", {n: N, p: rows[n]}, e[n, p] / total[n])


def scattered() -> Made:
    f, rows, column = started("scattered")
    a, s = arrays(f, a=[E], s=[N])
    v = f.computation("v", {n: N, p: rows[n]}, a[p] * s[n])
    return f, f.scatter("y", {m: N}, over={p: E}, at=[column[p]], op=tm.sum, expr=v[rows.of(p), p])


def scattered_by_runs() -> Made:
    f, rows, column = started("scattered_by_runs")
    a, s = arrays(f, a=[E], s=[N])
    return f, f.scatter("y", {m: N}, over={n: N, p: rows[n]}, at=[column[p]], op=tm.sum, expr=a[p] * s[n])


def gathered() -> Made:
    f, _, column = started("gathered")
    (a,) = arrays(f, a=[E])
    y = f.scatter("y", {n: N}, over={q: E}, at=[column[q]], op=tm.sum, expr=a[q])
    y.gather(f.inverse("into", column), p)
    return f, y


def attention() -> Made:
    f, rows, column = started("attention")
    h, w, v = arrays(f, h=[N, F], w=[N, F, F], v=[N, F])
    msg = f.reduction("msg", {n: N, p: rows[n], d: F}, {k: F}, tm.sum, h[column[p], k] * w[n, k, d])
    att = f.reduction("att", {n: N, p: rows[n]}, {d: F}, tm.sum, msg[n, p, d] * v[n, d])
    e = f.computation("e", {n: N, p: rows[n]}, tm.exp(att[n, p]))
    run, at = rows.of(p), [column[p], d]
    return f, f.scatter("y", {m: N, d: F}, over={p: E}, at=at, op=tm.sum, expr=e[run, p] * msg[run, p, d])


def producers(f: tm.Function, y: Any) -> list[Any]:
    names = [name for name in f.algorithm.computations if name not in (y.name, "rows_of")]
    return [f[name] for name in reversed(names)]


def update(y: Any) -> Any:
    return y.update if isinstance(y, tm.Reduction) else y


COMMANDS: dict[str, Callable[[tm.Function, Any], Any]] = {
    "split": lambda f, y: update(y).split(p, 4, p0, p1),
    "split of runs": lambda f, y: update(y).split(n, 4, n0, n1),
    "tile": lambda f, y: update(y).tile(n, p, 4, 8, n0, p0, n1, p1),
    "interchange": lambda f, y: update(y).interchange(n, p),
    "coalesce": lambda f, y: update(y).coalesce(n, p, into=j),
    "coalesce, split": lambda f, y: update(y).coalesce(n, p, into=j).split(j, 8, p0, p1),
    "tiles of positions": lambda f, y: update(y).split(p, 8, p0, p1).reorder(p0, n, p1),
    "tiles of runs": lambda f, y: update(y).split(n, 4, n0, n1).reorder(n0, p, n1),
    "tiles of runs inside": lambda f, y: update(y).split(n, 4, n0, n1).reorder(p, n0, n1),
    "parallelize": lambda f, y: y.parallelize(n),
    "vectorize": lambda f, y: update(y).vectorize(p, 4, combine=tm.PRIVATE),
    "vectorize features": lambda f, y: y.vectorize(d, 4),
    "vectorize runs": lambda f, y: update(y).vectorize(n, 4),
    "unroll": lambda f, y: update(y).unroll(p, 4),
    "unroll_and_jam": lambda f, y: update(y).unroll_and_jam(p, 4),
    "unroll_and_jam of runs": lambda f, y: update(y).unroll_and_jam(n, 4),
    "skew": lambda f, y: update(y).skew(n, p, 1),
    "skew of positions": lambda f, y: update(y).interchange(n, p).skew(p, n, 1),
    "shift": lambda f, y: update(y).shift(p, 3),
    "reverse": lambda f, y: update(y).reverse(p),
    "reverse of runs": lambda f, y: update(y).reverse(n),
    "compute_at runs": lambda f, y: [each.compute_at(y, n) for each in producers(f, y)],
    "compute_at positions": lambda f, y: producers(f, y)[0].compute_at(y, p),
    "auto_schedule": lambda f, y: f.auto_schedule(threads=1),
    "auto_schedule on threads": lambda f, y: f.auto_schedule(threads=2),
}
PROGRAMS = (
    typed_product, scaled, product_with_vector, product_with_matrix, sampled_product, softmax, scattered,
    scattered_by_runs, gathered, attention,
)  # fmt: skip
#: A sum over a run once for each position: recomputed, as asked for, and the remark says in which loop.
RECOMPUTED = [("softmax", "compute_at positions")]
#: Commands that not every program has the loops for.
SOME = ("vectorize features", "compute_at runs", "compute_at positions", "coalesce", "coalesce, split")


def given(program: Callable[[], Made], command: Callable[[tm.Function, Any], Any]) -> Made | None:
    """The program with a command on its output, or else on the first of its stages that has the loops."""
    for number in range(5):
        f, y = program()
        f.outputs(y)
        stages = [y, *reversed(producers(f, y))]
        try:
            command(f, stages[min(number, len(stages) - 1)])
            return f, y
        except (tm.CommandError, IndexError):
            continue
    return None


def counted(f: tm.Function) -> Counter[str]:
    """The stores to each array, and the iterations and tests of all loops."""
    found: Counter[str] = Counter()

    def run(node: Node | None, known: Mapping[str, Any]) -> None:
        match node:
            case Block():
                for child in node.body:
                    run(child, known)
            case If():
                holds = value(node.condition, known)
                found["visits"] += not holds
                run(node.then if holds else node.otherwise, known)
            case Let():
                named = node.value.dtype.is_integer
                run(node.body, {**known, node.variable: value(node.value, known)} if named else known)
            case Allocate():
                run(node.body, known)
            case For():
                turns = range(value(node.lower, known), value(node.upper, known), node.step)
                found["visits"] += max(len(turns), 1)
                for turn in turns:
                    run(node.body, {**known, node.variable: turn})
            case Store():
                found[node.buffer] += 1

    function: LoopFunction = lower(f.completed)
    given = {
        "rows": ROWS,
        "column": COLUMN,
        "rows_of": OF,
        "into_start": INTO[0],
        "into_start_of": INTO_OF,
        "into_order": INTO[1],
    }
    run(function.body, {**SIZES, **given})
    return found


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_loops_over_runs_have_an_iteration_for_each_position(program: Callable[[], Made], command: str) -> None:
    made, y = program()
    made.outputs(y)
    plain = counted(made)
    scheduled = given(program, COMMANDS[command])
    if scheduled is None:
        assert command in SOME
        return
    f, y = scheduled
    report = f.check()
    assert report.ok or {each.kind for each in report.violations} <= {"race"}, report
    if not report.ok or (program.__name__, command) in RECOMPUTED:
        return
    found = counted(f)
    stored = {name: count for name, count in found.items() if name in plain and name not in ("visits", "rows_of")}
    assert stored == {name: plain[name] for name in stored} or "auto" in command or "compute_at" in command
    assert found["y"] == plain["y"]
    assert found["visits"] <= 2.5 * plain["visits"] + 3 * (SIZES["N"] + SIZES["E"])  # of N * E, 9000


def test_what_runs_in_all_positions_of_a_loop_is_remarked() -> None:
    f, y = softmax()
    f.outputs(y)
    f["total"].compute_at(y, p)
    (remark,) = [each for each in f.show("remarks") if each.startswith("y:")]
    assert "runs through all positions" in remark and "compute total at a loop outside of p" in remark


def test_tiles_of_what_is_computed_in_blocks_of_positions_begin_with_their_run() -> None:
    f, sums = typed_product()
    out = f.computation("out", {n: N, p: f["rows"][n], d: F}, sums[n, p, d])
    f.outputs(out)
    out.split(p, 4, p0, p1)
    sums.compute_at(out, p0)
    sums.update.reorder(k, p, d)
    blocks = sum(-(-int(high) // 4) - int(low) // 4 for low, high in pairwise(ROWS))
    found = counted(f)
    assert found["out"] == 150 * F and found["visits"] <= 150 * (F + 2) * (F + 2) + 8 * F * blocks  # of N * E * F * F
