"""rfactor: partial results that are computed, placed and moved like any values, and combined at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.program.program import Program
from tiramisu_py.proof.blame import History

N, M, K = tm.params("N M K")
i, j, k, q = tm.iters("i j k q")
i0, i1, j0, j1, k0, k1, k2 = tm.iters("i0 i1 j0 j1 k0 k1 k2")

SIZES = [0, 1, 7, 8, 31]


def product(dtype: tm.DType = tm.int32, op: Any = tm.sum, **options: Any) -> tuple[tm.Function, tm.Reduction]:
    """C = A B, or the same with another operator."""
    f = tm.Function("mm", params=[N, M, K])
    A = f.input("A", dtype, [N, K])
    B = f.input("B", dtype, [K, M])
    C = f.reduction("C", {i: N, j: M}, {k: K}, op, A[i, k] * B[k, j], **options)
    f.outputs(C)
    return f, C


def blocks(C: tm.Reduction) -> None:
    C.update.split(k, 8, k0, k1)
    C.rfactor(k0)


def blocks_on_threads(C: tm.Reduction) -> None:
    C.update.split(k, 8, k0, k1)
    P = C.rfactor(k0)
    P.parallelize(k0)
    P.store_in(tm.Buffer("kept", [(K + 7) // 8, N, M], tm.int32), [k0, i, j])


def accumulators(C: tm.Reduction) -> None:
    C.update.split(k, 4, k0, k1)
    P = C.update.rfactor(k1, name="four")
    P.compute_at(C.update, j)
    P.store_in(tm.REGISTER)
    P.update.split(k, 4, k0, k2)
    P.unroll(k1)
    C.update.unroll(k1)


def lanes(C: tm.Reduction) -> None:
    C.update.split(k, 8, k0, k1)
    P = C.rfactor(k1)
    P.compute_at(C.update, j)
    P.update.split(k, 8, k0, k2)
    P.update.reorder(k0, k1, k2)
    P.vectorize(k1, 8)


def twice(C: tm.Reduction) -> None:
    C.update.split(k, 8, k0, k1)
    P = C.rfactor(k0, name="P")
    P.update.split(k, 2, k1, k2)
    P.rfactor(k1, name="Q")


def register_tiles(C: tm.Reduction) -> None:
    C.update.split(k, 8, k0, k1)
    P = C.rfactor(k0)
    C.update.tile(i, j, 3, 16, i0, j0, i1, j1)
    C.update.reorder(k0, j0, i0, i1, j1)
    C.update.unroll(i1, remainder="specialize")
    C.update.vectorize(j1, 8, remainder="mask")
    P.compute_at(C.update, i0)
    P.store_in(tm.REGISTER)
    P.update.reorder(k, i, j)
    P.unroll(i, remainder="specialize")
    P.vectorize(j, 8, remainder="pad")
    P.update.copy(C._function["B"], [k1, j1], at=k0, layout=[j1 // 16, k1, j1 % 16])


SCHEDULES = {f.__name__: f for f in (blocks, blocks_on_threads, accumulators, lanes, twice, register_tiles)}


def matrices(n: int, m: int, depth: int, dtype: Any = np.int32) -> tuple[Any, Any]:
    rng = np.random.default_rng(n + 100 * m + depth)
    return rng.integers(-9, 9, (n, depth)).astype(dtype), rng.integers(-9, 9, (depth, m)).astype(dtype)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_partial_results_add_up(schedule: Callable[[tm.Reduction], None]) -> None:
    f, C = product()
    schedule(C)
    report = f.check()
    assert report.ok, report
    assert "bits preserved" in str(report)
    kernel = f.compile(sanitize=("undefined",))
    for size in SIZES:
        a, b = matrices(size + 2, 2 * size, size)
        np.testing.assert_array_equal(kernel(a, b), a @ b)


@pytest.mark.parametrize("schedule", [blocks, lanes, register_tiles], ids=lambda f: f.__name__)
def test_sums_of_floats_are_rounded_in_another_order_and_the_report_says_so(
    schedule: Callable[[tm.Reduction], None],
) -> None:
    f, C = product(tm.float32)
    schedule(C)
    report = f.check()
    assert report.ok, report
    assert "bits given up by C" in str(report)
    assert "rfactor" in str(report)
    a, b = (x.astype(np.float32) for x in matrices(9, 20, 31))
    np.testing.assert_array_equal(f.compile()(a, b), a @ b)  # of small integers, so that nothing is rounded


def test_finding_the_command_completes_no_state_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    f, C = product(tm.float32)
    register_tiles(C)
    completed: list[Program] = []

    def counted(history: History, state: Program) -> Program:
        completed.append(state)
        return _completed(history, state)

    _completed = History._completed
    monkeypatch.setattr(History, "_completed", counted)
    assert "bits given up by C.rfactor" in str(f.check())
    after = [state for state in completed if state.algorithm.wholes]
    assert len(f.commands) > 10 and len(after) == 1  # the program itself


@dataclass(frozen=True)
class Case:
    """A reduction, the loops to keep, and what NumPy says."""

    declare: Callable[[], tuple[tm.Function, tm.Reduction]]
    keep: Callable[[tm.Reduction], object]
    sample: Callable[[int], dict[str, Any]]


def over_two() -> tuple[tm.Function, tm.Reduction]:
    f = tm.Function("window", params=[N, K])
    a = f.input("a", tm.int32, [N + K, K])
    s = f.reduction("s", {i: N}, {k: K, q: K}, tm.sum, a[i + k, q])
    f.outputs(s)
    return f, s


def triangle() -> tuple[tm.Function, tm.Reduction]:
    f = tm.Function("triangle", params=[N])
    a = f.input("a", tm.int32, [N, N])
    s = f.reduction("s", {i: N}, {k: (0, i + 1)}, tm.max, a[i, k])
    f.outputs(s)
    return f, s


def chosen_terms() -> tuple[tm.Function, tm.Reduction]:
    f = tm.Function("chosen", params=[N, K])
    a = f.input("a", tm.int32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k], where=a[i, k] > 0)
    f.outputs(s)
    return f, s


def rows() -> tuple[tm.Function, tm.Reduction]:
    f = tm.Function("rows", params=[N, K])
    start = f.input("start", tm.int32, [N + 1], values=(0, K + 1), monotone=True)
    a = f.input("a", tm.int32, [K])
    s = f.reduction("s", {i: N}, {k: (start[i], start[i + 1])}, tm.sum, a[k])
    f.outputs(s)
    return f, s


def single() -> tuple[tm.Function, tm.Reduction]:
    f = tm.Function("single", params=[K])
    a = f.input("a", tm.uint8, [K])
    s = f.reduction("s", {}, {k: K}, tm.logical_or, a[k])
    f.outputs(s)
    return f, s


def _whole(s: tm.Reduction) -> None:
    s.rfactor(k)


def _by_four(s: tm.Reduction) -> None:
    s.update.split(k, 4, k0, k1)
    s.rfactor(k0)


def _of_four(s: tm.Reduction) -> None:
    s.update.split(k, 4, k0, k1)
    s.rfactor(k1)


def _some(*shape: int, dtype: Any = np.int32) -> Any:
    return np.random.default_rng(sum(shape)).integers(-9 if dtype == np.int32 else 0, 9, shape).astype(dtype)


def _row_sample(n: int) -> dict[str, Any]:
    lengths = np.arange(n) % 5
    return {"start": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), "a": _some(int(lengths.sum()))}


CASES = {
    "one of two loops over terms": Case(over_two, _whole, lambda n: {"a": _some(n + 3, 3)}),
    "blocks of a triangle": Case(triangle, _by_four, lambda n: {"a": _some(n, n)}),
    "remainders in a triangle": Case(triangle, _of_four, lambda n: {"a": _some(n, n)}),
    "terms under a condition": Case(chosen_terms, _by_four, lambda n: {"a": _some(n, 11)}),
    "rows of a sparse matrix": Case(rows, _of_four, _row_sample),
    "a single value": Case(single, _by_four, lambda n: {"a": _some(n, dtype=np.uint8)}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_any_reduction_can_be_taken_apart(case: Case) -> None:
    f, s = case.declare()
    case.keep(s)
    report = f.check()
    assert report.ok, report
    kernel = f.compile()
    for size in (1, 5, 17):
        sample = case.sample(size)
        np.testing.assert_array_equal(kernel(**sample), f.evaluate(**sample))


def test_evaluate_computes_what_was_declared() -> None:
    f, C = product()
    blocks(C)
    assert list(f.algorithm.computations) == ["C"]
    assert f.algorithm.computations["C"].over == ("k",)
    a, b = matrices(3, 4, 20)
    np.testing.assert_array_equal(f.evaluate(a, b), a @ b)


def test_partial_results_survive_undo_copies_and_files(tmp_path: Any) -> None:
    f, C = product()
    register_tiles(C)
    f.save(tmp_path / "mm.json")
    again = tm.load(tmp_path / "mm.json")
    assert again.commands == f.commands
    assert again.source() == f.source()
    same = tm.Function.of(f.algorithm, f.commands)
    assert same.source() == f.source()
    while f.commands:
        f.undo()
    assert f.source() == product()[0].source()


def test_declarations_may_follow() -> None:
    f, C = product()
    blocks(C)
    D = f.computation("D", {i: N, j: M}, C[i, j] + 1)
    f.outputs(D, replace=True)
    a, b = matrices(3, 4, 20)
    np.testing.assert_array_equal(f.compile()(a, b), a @ b + 1)


def test_partial_results_after_what_combines_them_are_refused() -> None:
    f, C = product()
    C.update.split(k, 8, k0, k1)
    P = C.rfactor(k0)
    with pytest.raises(tm.CommandError, match=r"form a cycle: C\.update\.rfactor|form a cycle: .*C\.rfactor\(k0\)"):
        P.after(C, tm.root)
    assert f.check().ok


def test_a_reduction_may_move_after_its_partial_results_have_been_declared() -> None:
    f, C = product()
    D = f.computation("D", {i: N, j: M}, C[i, j] + 1)
    f.outputs(D, replace=True)
    C.update.split(k, 8, k0, k1)
    C.rfactor(k0)
    C.compute_at(D, i)
    a, b = matrices(3, 4, 20)
    np.testing.assert_array_equal(f.compile()(a, b), a @ b + 1)


def test_partial_results_on_a_gpu() -> None:
    f = tm.Function("sums", params=[N, K])
    a = f.input("a", tm.int64, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k])
    f.outputs(s)
    s.update.split(k, 8, k0, k1)
    partial = s.rfactor(k1)
    s.init.tag_gpu(blocks=[i])
    s.update.tag_gpu(blocks=[i])
    partial.tag_gpu(blocks=[i], threads=[k1])
    f.derive_transfers()
    kernel = f.compile(device="simulator", sanitize=True)
    for n, terms in ((0, 5), (3, 0), (5, 37)):
        given = matrices(n, 1, terms, np.int64)[0]
        np.testing.assert_array_equal(kernel(given), given.sum(axis=1))


def test_partial_results_on_other_ranks_have_to_be_sent() -> None:
    f = tm.Function("rows", params=[N], assume="N >= 1")
    a = f.input("a", tm.int64, [N, 64])
    s = f.reduction("s", {i: N}, {k: 64}, tm.sum, a[i, k])
    f.outputs(s)
    a.distribute_array([i, k], rank=k // 16)
    s.update.split(k, 16, q, k1)
    s.rfactor(q).tag_distribute(q)
    violation = f.check().violations[0]
    assert violation.kind == "communication"
    assert "derive_transfers" in violation.repair


def test_partial_results_on_threads_need_a_place_each() -> None:
    f, C = product()
    C.update.split(k, 8, k0, k1)
    P = C.rfactor(k0)
    P.store_in(tm.Buffer("one", [N, M], tm.int32), [i, j])
    violation = f.check().violations[0]
    assert violation.command.startswith("C_partial.store_in")


def _ordered() -> None:
    C = product(ordered=True)[1]
    C.update.split(k, 8, k0, k1)
    C.rfactor(k0)


def _over_values() -> None:
    product()[1].rfactor(i)


def _all() -> None:
    product()[1].rfactor(k)


def _none() -> None:
    product()[1].rfactor()


def _no_loop() -> None:
    product()[1].rfactor(k0)


def _start() -> None:
    product()[1].init.rfactor(i)


def _after_pack() -> None:
    f, C = product()
    C.update.copy(f["B"], [k1, j1], layout=[j1, k1])
    C.update.split(k, 8, k0, k1)
    C.rfactor(k0)


def _tagged() -> None:
    C = product()[1]
    C.update.split(k, 8, k0, k1)
    C.update.unroll(k1)
    C.rfactor(k0)


def _in_parts() -> None:
    C = product()[1]
    C.update.separate_at(k, [8])
    C.rfactor(k)


def _moved() -> None:
    f, C = product()
    D = f.computation("D", {i: N, j: M}, C[i, j] + 1)
    C.compute_at(D, i)
    C.update.split(k, 8, k0, k1)
    C.rfactor(k0)


def _name_in_use() -> None:
    C = product()[1]
    C.update.split(k, 8, k0, k1)
    C.rfactor(k0, name="A")


def _no_name() -> None:
    C = product()[1]
    C.update.split(k, 8, k0, k1)
    C.rfactor(k0, name=5)  # type: ignore[arg-type]


def _mixed() -> None:
    C = product()[1]
    C.update.skew(i, k, 1, new=q)
    C.update.split(q, 8, k0, k1)
    C.update.reorder(k0, k1, i)
    C.update.skew(k0, i, 1)
    C.rfactor(k0)


REFUSED: dict[str, tuple[Callable[[], None], str]] = {
    "an ordered reduction": (_ordered, "ordered=True"),
    "a loop over values": (_over_values, "does not run over terms of C"),
    "all loops over terms": (_all, "leave out the loops"),
    "no loop": (_none, "names the loops that number the partial results"),
    "a loop that does not exist": (_no_loop, "no loop k0: C.update has the loops i, j, k"),
    "the start": (_start, "C.init is no update"),
    "an update that reads copies": (_after_pack, "give rfactor before copy"),
    "a loop with a tag": (_tagged, "tagged by C.update.unroll(k1)"),
    "an update in parts": (_in_parts, "in parts"),
    "a reduction at another loop": (_moved, "give rfactor before"),
    "a name that is none": (_no_name, "cannot be called 5: give a text"),
    "a name in use": (_name_in_use, "cannot be called A"),
    "loops that are mixed": (_mixed, "are mixed"),
}


@pytest.mark.parametrize(("wrong", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_taken_apart_is_refused(wrong: Callable[[], None], words: str) -> None:
    with pytest.raises(tm.CommandError) as refused:
        wrong()
    assert words in str(refused.value)
