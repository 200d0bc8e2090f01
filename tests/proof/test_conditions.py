"""The conditions of the theorem: their names, what they say, that each is needed, and how findings are known again."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs import stage_stories
from tests.programs.gpu.stories import tiled_stencil, twice
from tests.programs.ranks.collectives import all_to_all, transposed
from tests.proof.messages.test_collectives import between
from tests.proof.test_parts_of_terms import dealt, in_parts, redefined
from tests.refused.test_gpu_refused import CASES as GPU_CASES
from tests.refused.test_rank_deadlocks import CHANGED, NB, RIGHT, SEND, P, q
from tests.refused.test_rank_deadlocks import blur as rank_blur
from tests.refused.test_rank_programs import CASES as RANK_CASES
from tests.refused.test_rank_red_team import rows
from tests.refused.test_refused import CASES as HOST_CASES
from tests.refused.test_what_the_code_needs import CASES as CODE_CASES
from tests.schedule.devices.test_align_lines import gather
from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.domains.references import access
from tiramisu_py.dependence.access import MemoryAccess
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.derive.completion import complete
from tiramisu_py.program.ranks.spread import spread
from tiramisu_py.proof import Report, theorem
from tiramisu_py.proof.memory import values
from tiramisu_py.proof.theorem import CONDITIONS
from tiramisu_py.proof.violations.findings import Key

N, K = tm.params("N K")
i, k = tm.iters("i k")


def host(case: str) -> Callable[[], Any]:
    return next(build for name, build, *_ in HOST_CASES if name == case)


def in_half_precision() -> tm.Function:
    """Half-precision numbers whose sum has come into a loop over ranks that combine another one."""
    f = tm.Function("halves", params=[])
    x, y = f.input("x", tm.int32, [103]), f.input("y", tm.float16, [103])
    z, i, q, i1 = tm.iters("z i q i1")
    s = f.reduction("s", {z: 1}, {i: 103}, tm.sum, x[i])
    h = f.reduction("h", {z: 1}, {i: 103}, tm.sum, y[i])
    f.outputs(s, h)
    for array in (x, y):
        array.distribute_array([i], rank=i // 26)
    for part in (s.update, h.update):
        part.split(i, 26, q, i1)
        part.reorder(q, z, i1)
    s.update.tag_distribute(q, combine=tm.PRIVATE)
    h.init.before(s.update)
    h.update.after(s.update, q)
    return f


def beside_an_output() -> tm.Function:
    """p is kept in the array of the output b, at an element that b has no value for."""
    f = tm.Function("f", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: 1}, a[i])
    b = f.computation("b", {i: N}, p[0] + a[i])
    f.outputs(b)
    array = tm.Buffer("array", [N + 1], tm.int32)
    p.store_in(array, [i + N])
    b.store_in(array, [i])
    return f


def kept() -> tm.Function:
    """A product of matrices that takes one of them packed."""
    s = pl.matmul()
    s.C.update.copy(s.B, [pl.y, pl.x], layout=[pl.x, pl.y]).keep()
    s.C.parallelize(pl.i)
    return s.f


def padded_update() -> tm.Function:
    s = pl.matmul()
    s.C.update.vectorize(pl.j, 4, remainder="pad")
    return s.f


def updated_in_place() -> tm.Function:
    s = pl.update()
    s.b.store_in(s.a, [i]).vectorize(i, 4, remainder="overlap")
    return s.f


def one_request() -> tm.Function:
    s = rows("send")
    s.half.set_wait_access(0)
    return s.f


def atomic_sum() -> tm.Function:
    """A sum of which each run is to have the same bits."""
    f = tm.Function("f", params=[K])
    s = f.reduction("s", {}, {k: K}, tm.sum, f.input("a", tm.float32, [K])[k], determinism="run_to_run")
    f.outputs(s)
    s.update.parallelize(k, combine=tm.ATOMIC)
    return f


class Redefined:
    """A sum in twelve parts whose terms have thirteen."""

    def __init__(self) -> None:
        self.completed = complete(redefined(dealt(), lambda s, how: (s, in_parts(how, 13))))

    def check(self) -> Report:
        return theorem.check(self.completed)


class MoreConditions:
    """A sum over runs, of which the first term of each is left out."""

    def __init__(self) -> None:
        f = tm.Function("f", params=[N, K])
        p = tm.Iter("p")
        rows = f.segments("rows", N, of=K)
        s = f.reduction("s", {i: N}, {p: rows[i]}, tm.sum, f.input("a", tm.float32, [K])[p])
        f.outputs(s)
        program = f._program
        update = program.statements["s_update"]
        guard = typed(access("rows", tm.int32, 1, i, f.owner) <= p - 1)
        self.completed = complete(program.with_statement(replace(update, guards=(*update.guards, guard))))

    def check(self) -> Report:
        return theorem.check(self.completed)


#: For each condition a program that is wrong by it alone: proven without it.
WRONG: dict[str, Callable[[], Any]] = {
    "structure": lambda: RANK_CASES["exchanged by threads"][0]().f,
    "executors": lambda: rank_blur(RIGHT, collapse="", send={**SEND, q: (0, P)}),
    "array_parts": lambda: CODE_CASES["two outputs in one array on ranks"].make(False),
    "reach": lambda: CODE_CASES["pinned memory of each thread"].make(False),
    "places": host("a buffer that is too small"),
    "whole_calls": stage_stories.sums,
    "values": host("a fusion that reads ahead"),
    "reductions": host("terms before the identity"),
    "bits": host("an ordered sum backwards"),
    "grades": atomic_sum,
    "parts_of_terms": Redefined,
    "implied_conditions": MoreConditions,
    "aligned_lines": lambda: gather(33, "shift", 100),
    "races": host("time steps in parallel"),
    "overlapping_vectors": updated_in_place,
    "whole_vectors": padded_update,
    "threads": lambda: next(case for case in GPU_CASES if case[0] == "a missing barrier")[1]().f,
    "trees": lambda: next(case for case in GPU_CASES if case[0] == "a tree with several targets")[1]().f,
    "waits": lambda: RANK_CASES["no wait for a send"][0]().f,
    "requests": one_request,
    "private_copies": lambda: CODE_CASES["two operators in one buffer"].make(False),
    "rank_reductions": in_half_precision,
    "callers_arrays": beside_an_output,
    "operands_between_calls": host("a kept operand in a loop of its reader"),
    "matching": lambda: rank_blur(RIGHT, collapse="", **CHANGED["a row too many is sent"][0]),
    "collectives": between,
    "deadlock": lambda: rank_blur("down.send up.send down.recv up.recv"),
    "requested_code": lambda: CODE_CASES["a loop unrolled too often"].make(False),
}


@pytest.mark.parametrize("name", [condition.name for condition in CONDITIONS])
def test_a_program_that_is_wrong_by_one_condition_is_proven_without_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not WRONG[name]().check().ok
    monkeypatch.setattr(theorem, "CONDITIONS", tuple(condition for condition in CONDITIONS if condition.name != name))
    report = WRONG[name]().check()
    assert report.ok, report


def test_a_condition_has_the_name_of_its_module() -> None:
    for condition in CONDITIONS:
        module = importlib.import_module(condition.findings.__module__)
        assert condition.name == module.__name__.rpartition(".")[2]
        assert condition.says == getattr(module, "SENTENCES", ())
    assert len({condition.name for condition in CONDITIONS}) == len(CONDITIONS)


# -- sentences


def plain() -> tm.Function:
    return pl.pair().f


def several_times() -> tm.Function:
    """Sums, a stage with whole vectors, and one with vectors that overlap."""
    f = tm.Function("f", params=[N, K])
    a = f.input("a", tm.int32, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k])
    p = f.computation("p", {i: N}, s[i] + 1)
    b = f.computation("b", {i: N}, p[i] + 1)
    f.outputs(b)
    p.vectorize(i, 8, remainder="pad")
    b.vectorize(i, 8, remainder="overlap")
    return f


def on_every_rank() -> tm.Function:
    f: tm.Function = pl.pair().f
    f.grid(2)
    return f


def nonblocking() -> tm.Function:
    steps = "down.recv up.recv down.send up.send wait-down.recv wait-up.recv wait-down.send wait-up.send"
    made: tm.Function = rank_blur(steps, NB, NB)
    return made


def together() -> tm.Function:
    f, b, _ = transposed()
    all_to_all(f, b)
    return f


def in_its_reader() -> tm.Function:
    """p is computed in the loop of q, which reads a table that is declared after p."""
    f = tm.Function("moved", params=[N])
    a = f.input("a", tm.uint8, [N])
    p = f.computation("p", {i: N}, a[i] // 2)
    table = f.computation("table", {k: 256}, k * 2)
    q = f.computation("q", {i: N}, table[p[i]])
    f.outputs(q)
    p.compute_at(q, i)
    return f


def from_minus_one() -> tm.Function:
    """An output whose array begins below index 0."""
    f = tm.Function("below", params=[N])
    f.outputs(f.computation("p", {i: (-1, N)}, i * 2))
    return f


#: Right programs, and what their reports have in this order beside what all have.
def dealt_runs() -> tm.Function:
    """The positions of runs in one loop, whose runs are known by their numbers."""
    N, P = tm.params("N P")
    n, p, e = tm.iters("n p e")
    f = tm.Function("runs", params=[N, P])
    rows, x = f.segments("rows", N, of=P), f.input("x", tm.float32, [P])
    y = f.computation("y", {n: N, p: rows[n]}, 2 * x[p])
    f.outputs(y)
    y.coalesce(n, p, into=e)
    return f


def turned_rows() -> tm.Function:
    """A gather whose threads begin at cache lines."""
    N, M = tm.params("N M")
    i, j = tm.iters("i j")
    f = tm.Function("gather", params=[N, M])
    rows = f.input("rows", tm.float32, [M, 33], memory=tm.HOST_MAPPED)
    index = f.input("index", tm.int32, [N], values=(0, M))
    g = f.computation("g", {i: N, j: 33}, rows[index[i], j])
    f.outputs(g)
    g.align(j, rows, 128, by="line")
    g.tag_gpu(blocks=[i], threads=[j])
    f.derive_transfers()
    return f


SAID: dict[Callable[[], Any], list[str]] = {
    plain: [],
    from_minus_one: ["the array p begins at p[-1]"],
    in_its_reader: ["table comes before q, which reads it"],
    stage_stories.product: ["each call of gemm computes"],
    several_times: [
        "every term is in s once", "no two iterations", "running iterations of i", "past their ends, vectors",
    ],
    on_every_rank: ["each rank reads only", "every rank computes p, q"],
    nonblocking: [
        "each rank reads only", "nothing overwrites", "every message of down, up", "no deadlock",
    ],
    together: [
        "each rank reads only", "every message of x", "no deadlock is possible on 3 ranks", "each call of x",
    ],
    kept: ["what is kept between calls is packed first", "every term", "no two iterations"],
    dealt: ["every term of s is in one part", "every term is in s once"],
    lambda: twice().f: ["everything waits for the operations", "no two iterations"],
    dealt_runs: ["every term is in rows_of once", "bounds of runs"],
    turned_rows: ["everything waits for the operations", "no two iterations", "the threads of g may take turns"],
    lambda: tiled_stencil().f: ["everything waits for the operations", "all threads of a block", "no two iterations"],
}  # fmt: skip


@pytest.mark.parametrize("make", SAID)
def test_each_condition_says_its_own_sentences(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    report = make().check()
    assert report.ok, report
    first, seen, caller, *rest = report.proven
    assert first.startswith("every read is inside its array")
    assert seen == "every read sees the value it names"
    assert caller.startswith("the caller finds every value of")
    assert all(said.startswith(words) for said, words in zip(rest, SAID[make], strict=True)), rest
    monkeypatch.setattr(theorem, "CONDITIONS", ())
    assert make().check().proven == (first,)


def test_every_sentence_is_said_of_some_program() -> None:
    programs = [spread(make().completed) for make in SAID]
    for sentence in (sentence for condition in CONDITIONS for sentence in condition.says):
        assert any(sentence.text(program) for program in programs), sentence


# -- the same finding in another state


def test_a_finding_is_known_by_its_sort_and_what_it_is_about_wherever_it_was_found() -> None:
    assert Key("race", ("a",), {"N": 1}) == Key("race", ("a",), {"N": 2}) == Key("race", ("a",))
    assert len({Key("race", ("a",)), Key("race", ("b",)), Key("order", ("a",))}) == 3


def test_words_are_made_for_what_is_said_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The states before are asked for the finding only: its smallest counterexample costs more than to know of it."""
    explained: list[str] = []

    def counted(flow: Flow, read: MemoryAccess, bad: Any) -> Any:
        explained.append(read.source)
        return original(flow, read, bad)

    s = pl.pair()
    s.q.after(s.p, i)
    for _ in range(5):
        s.q.shift(i, -1)
    original = values.explained
    monkeypatch.setattr(values, "explained", counted)
    assert [violation.command for violation in s.f.check().violations] == ["q.after(p, i)"]
    assert explained == ["p"]


@pytest.mark.parametrize("name", WRONG)
def test_a_finding_that_is_sought_is_found_again_in_the_same_program(name: str) -> None:
    """What is found when all is asked for is there when it alone is asked for, and nothing is there of another key."""
    condition = next(condition for condition in CONDITIONS if condition.name == name)
    flow = Flow(MemoryAccesses(spread(WRONG[name]().completed)))
    found = list(condition.findings(flow, None))
    assert found
    for finding in found:
        assert condition.finds(finding.key, flow)
        sought = [other for other in condition.findings(flow, finding.key) if other.key == finding.key]
        assert finding.violation.kind in [other.violation.kind for other in sought]
    if name != "deadlock":  # of which there is one, known by its kind
        assert not condition.finds(Key(found[0].key.sort, ("nothing", "nothing", "nothing")), flow)
