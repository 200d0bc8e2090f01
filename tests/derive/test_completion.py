"""Each step of the completion, left out or made wrong: the proof names it, before any value is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

import tiramisu_py as tm
from tests.programs.gpu import thread_registers
from tests.programs.gpu.pipelines import blur
from tests.programs.gpu.sums_over_blocks import total as in_the_last_block
from tests.programs.ranks.sums import again_and_again, on_a_grid, shared_value, total
from tiramisu_py import sets
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.derive import completion
from tiramisu_py.derive.completion import COMPLETION, CompletionStep
from tiramisu_py.program.loops import Bulk
from tiramisu_py.program.ordering import Order
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Statement

N, K = tm.params("N K")
i, k, k0, k1 = tm.iters("i k k0 k1")
r, c, s0, s1, t0, t1, y, x = tm.iters("r c s0 s1 t0 t1 y x")

Change = Callable[[Program], Program]


def only(program: Program, role: Role, name: str = "@") -> Statement:
    (found,) = (s for s in program.statements.values() if s.role is role and name in s.name)
    return found


def without(role: Role) -> Change:
    def change(program: Program) -> Program:
        gone = only(program, role).name
        kept = {name: s for name, s in program.statements.items() if name != gone}
        return program.with_(statements=kept)

    return change


def twice(role: Role) -> Change:
    def change(program: Program) -> Program:
        first = only(program, role)
        again = replace(
            first, name=f"{first.name}#", instances=sets.named(first.instances, f"{first.name}#"),
            point=sets.from_frame(first.point, sets.named(first.instances, f"{first.name}#").get_space()),
            coords=sets.from_frame(first.coords, sets.named(first.instances, f"{first.name}#").get_space()),
        )  # fmt: skip
        first_loop = program.next_loop()
        bulk = [n for n in first.loops if isinstance(program.loops[n].tag, Bulk)]
        fresh = {n: replace(program.loops[n], id=first_loop + k) for k, n in enumerate(bulk)}
        program = program.with_loop(*fresh.values())
        again = replace(again, loops=tuple(fresh[n].id if n in fresh else n for n in again.loops))
        orders = [replace(o, before=again.name) for o in program.orders if o.before == first.name]
        orders += [replace(o, after=again.name) for o in program.orders if o.after == first.name]
        return program.with_statement(again).with_(orders=(*program.orders, *orders))

    return change


def reordered(*roles: Role) -> Change:
    """These statements in this order, and what was between two of them where it was otherwise."""

    def change(program: Program) -> Program:
        names = [_named(program, role).name for role in roles]
        pairs = list(pairwise(names))
        kept = tuple(o for o in program.orders if (o.after, o.before) not in pairs and not _between(o, names))
        level = next((o.level for o in program.orders if {o.before, o.after} & set(names)), None)
        return program.with_(orders=(*kept, *(Order(a, b, level) for a, b in pairs)))

    return change


def _named(program: Program, role: Role) -> Statement:
    return only(program, role, "" if role is Role.UPDATE else "@")


def _between(order: Order, names: list[str]) -> bool:
    return order.before in names and order.after in names


def changed(role: Role, change: Callable[[Program, Statement], Statement]) -> Change:
    return lambda program: program.with_statement(change(program, only(program, role, "@")))


def on_first_rank(program: Program, statement: Statement) -> Statement:
    """The statement on rank 0 alone: with a loop over ranks of one iteration."""
    loop = tm_loop(program)
    forms = [*sets.outputs(statement.coords), sets.constant(statement.frame, 0)]
    return replace(statement, loops=(*statement.loops, loop), coords=sets.function(statement.frame, None, forms))


def tm_loop(program: Program) -> int:
    return next(n for n, loop in program.loops.items() if loop.is_rank and loop.tagged_by)


def updates_elsewhere(program: Program) -> Program:
    update = only(program, Role.UPDATE, "s_update")
    return program.with_statement(replace(update, memory=replace(update.memory, target="s")))


def by_all_ranks(program: Program) -> Program:
    """Every rank adds every term to its partial result."""
    loop = program.loops[tm_loop(program)]
    return program.with_loop(replace(loop, tag=None))


def other_axes(program: Program, statement: Statement) -> Statement:
    assert statement.link.combination is not None
    return replace(statement, link=replace(statement.link, combination=replace(statement.link.combination, axes=(0,))))


#: What is made wrong, of which program, and what the proof says of it.
RANK_REDUCTIONS: dict[str, tuple[Callable[[], tm.Function], Change, str, str]] = {
    "not started": (lambda: total()[0], without(Role.INIT), "order", "reads s[0]"),
    "not combined": (lambda: total()[0], without(Role.COMBINE), "reduction", "merged before it is combined"),
    "not merged": (lambda: total()[0], without(Role.MERGE), "reduction", "s[0] lacks a term (the term i = 0)"),
    "started twice": (lambda: total()[0], twice(Role.INIT), "reduction", "s[0] is started twice"),
    "combined twice": (lambda: total()[0], twice(Role.COMBINE), "reduction", "s[0] is combined twice"),
    "merged twice": (lambda: total()[0], twice(Role.MERGE), "reduction", "s[0] gets a term twice"),
    "started with 1": (
        lambda: total()[0],
        changed(Role.INIT, lambda _, s: replace(s, body=Const(1.0, tm.float64))),
        "reduction",
        "s[0] is started with 1.0, which is not the identity of sum",
    ),
    "started after the terms": (
        lambda: total()[0],
        reordered(Role.UPDATE, Role.INIT, Role.COMBINE, Role.MERGE),
        "reduction",
        "before its start",
    ),
    "combined before the terms": (
        lambda: total()[0],
        reordered(Role.INIT, Role.COMBINE, Role.UPDATE, Role.MERGE),
        "reduction",
        "before all of its terms are added",
    ),
    "merged before it is combined": (
        lambda: total()[0],
        reordered(Role.INIT, Role.UPDATE, Role.MERGE, Role.COMBINE),
        "reduction",
        "a partial result of s[0] is merged before it is combined on rank 0",
    ),
    "started on one rank": (lambda: total()[0], changed(Role.INIT, on_first_rank), "order", "on rank 1"),
    "combined on one rank": (
        lambda: total()[0],
        changed(Role.COMBINE, on_first_rank),
        "deadlock",
        "rank 1 does not reach the combination of s_update",
    ),
    "merged on one rank": (lambda: shared_value()[0], changed(Role.MERGE, on_first_rank), "reduction", "on rank 1"),
    "terms added to the result": (
        lambda: total()[0], updates_elsewhere, "reduction", "s[0] lacks a term on rank 0",
    ),
    "every term on every rank": (
        lambda: total()[0], by_all_ranks, "reduction", "s[0] gets a term twice: it is added on rank 1 and on rank 0",
    ),
    "combined along the other axis": (
        lambda: on_a_grid()[0], changed(Role.COMBINE, other_axes), "reduction", "c[0, 0] lacks a term",
    ),
    "combined in another step": (
        lambda: again_and_again()[0], without(Role.COMBINE), "reduction", "a partial result of s[0] is merged before",
    ),
}  # fmt: skip


def tiles() -> tm.Function:
    """A stencil over tiles in shared memory, which the two blocks of a persistent kernel fill again and again."""
    s = blur()
    s.bx.inline()
    s.by.tile(r, c, 2, 4, s0, s1, t0, t1).tag_gpu([s0, s1], [t0, t1], grid=2)
    s.by.copy(s.image, [y, x], at=s1, into=tm.SHARED)
    s.f.derive_transfers()
    return s.f


def padded() -> tm.Function:
    """A temporary whose vectors store past its end."""
    f = tm.Function("padded", params=[N])
    a = f.input("a", tm.int16, [N + 17])
    p = f.computation("p", {i: N + 2}, a[i] + a[i + 1])
    f.outputs(f.computation("q", {i: (1, N + 1)}, p[i - 1] + p[i + 1]))
    p.vectorize(i, 8, remainder="pad")
    return f


def row_sums() -> tm.Function:
    """Row sums in trees, a row in a block of 32 threads, several blocks a row; then brought to the host."""
    f = tm.Function("row_sums", params=[N, K], assume="N >= 1")
    a = f.input("a", tm.float32, [N, K])
    s = f.reduction("s", {i: N}, over={k: K}, op=tm.sum, expr=a[i, k])
    f.outputs(s)
    s.init.tag_gpu(blocks=[i])
    s.update.split(k, 32, k0, k1)
    s.update.tag_gpu(blocks=[i, k0], threads=[k1], combine=tm.TREE)
    f.derive_transfers()
    return f


def of_first_threads(count: int) -> Callable[[Program, Statement], Statement]:
    """The statement for the first threads alone, along its innermost thread loop."""

    def change(program: Program, statement: Statement) -> Statement:
        depth = max(d for d, n in enumerate(statement.loops) if program.loops[n].name.startswith("thread"))
        within = sets.within(sets.variables(statement.frame)[depth], 0, count)
        return replace(statement, instances=statement.instances.intersect(within))

    return change


def of_the_next_row(program: Program, statement: Statement) -> Statement:
    """The statement with the results of the row after."""
    first, *rest = sets.outputs(statement.point)
    return replace(statement, point=sets.function(statement.frame, statement.source, [sets.plus(first, 1), *rest]))


#: What is made wrong of row sums in trees, and what the proof says of it.
TREES: dict[str, tuple[Change, str, str]] = {
    "not started": (without(Role.INIT), "reduction", "is added to s[0] before its start"),
    "not combined": (without(Role.COMBINE), "reduction", "a partial result of s[0] is merged before it is combined"),
    "not merged": (without(Role.MERGE), "reduction", "s[0] lacks a term"),
    "started twice": (twice(Role.INIT), "reduction", "is started twice"),
    "combined twice": (twice(Role.COMBINE), "reduction", "is combined twice"),
    "merged twice": (twice(Role.MERGE), "reduction", "gets a term twice"),
    "started with 1": (
        changed(Role.INIT, lambda _, s: replace(s, body=Const(1.0, tm.float32))),
        "reduction",
        "s[0] is started with 1.0, which is not the identity of sum",
    ),
    "started after the terms": (
        reordered(Role.UPDATE, Role.INIT, Role.COMBINE, Role.MERGE),
        "reduction",
        "before its start",
    ),
    "combined before the terms": (
        reordered(Role.INIT, Role.COMBINE, Role.UPDATE, Role.MERGE),
        "reduction",
        "before all of its terms are added",
    ),
    "merged before it is combined": (
        reordered(Role.INIT, Role.UPDATE, Role.MERGE, Role.COMBINE),
        "reduction",
        "is merged before it is combined",
    ),
    "started by 31 threads": (changed(Role.INIT, of_first_threads(31)), "reduction", "before its start"),
    "combined by 31 threads": (
        changed(Role.COMBINE, of_first_threads(31)),
        "race",
        "the combination of s_update is under",
    ),
    "merged into the next row": (changed(Role.MERGE, of_the_next_row), "reduction", "s[0] lacks a term"),
    "terms added to the result": (updates_elsewhere, "reduction", "no statement combines what they collect"),
}


@pytest.mark.parametrize("name", TREES)
def test_what_is_wrong_with_a_reduction_in_a_tree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, kind, words = TREES[name]
    assert row_sums().check().ok
    monkeypatch.setattr(completion, "COMPLETION", with_step("tree reductions", change))
    found = [(v.kind, v.message) for v in row_sums().check().violations]
    assert any(kind == k and words in message for k, message in found), found


def with_step(name: str, change: Change) -> tuple[CompletionStep, ...]:
    """The completion, with a change of what one step makes, where it makes something."""

    def wrong(step: CompletionStep) -> CompletionStep:
        def added(program: Program) -> Program:
            made = step.added(program)
            return made if made is program else change(made)

        return replace(step, added=added)

    return tuple(wrong(step) if step.name == name else step for step in COMPLETION)


@pytest.mark.parametrize("name", RANK_REDUCTIONS)
def test_what_is_wrong_with_a_reduction_over_ranks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, change, kind, words = RANK_REDUCTIONS[name]
    f = make()
    assert f.check().ok
    f = f.copy()
    monkeypatch.setattr(completion, "COMPLETION", with_step("rank reductions", change))
    f = make()
    found = [(v.kind, v.message) for v in f.check().violations]
    assert any(kind == k and words in message for k, message in found), found


#: Each step, a program that needs it, and what the proof says without it.
SKIPPED: dict[str, tuple[Callable[[], tm.Function], str, str]] = {
    "room for whole vectors": (padded, "bounds", "past the end"),
    "tickets": (lambda: in_the_last_block(tm.LAST_BLOCK), "race", "no tickets tell which block that is"),
    "thread registers": (lambda: thread_registers.dealt("inner 4", "inner 4"), "reach", "which different threads run"),
    "rank reductions": (lambda: total()[0], "reduction", "s[0] lacks a term on rank 0"),
    "tree reductions": (row_sums, "reduction", "no statement combines what they collect"),
    "barriers": (tiles, "race", "with no barrier between"),
    "rounds": (tiles, "race", "no barrier is between the two rounds"),
}


def test_every_step_is_left_out_once() -> None:
    assert list(SKIPPED) == [step.name for step in COMPLETION]


@pytest.mark.parametrize("name", SKIPPED)
def test_a_step_that_is_left_out_is_missed_by_the_proof(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, kind, words = SKIPPED[name]
    assert make().check().ok
    monkeypatch.setattr(completion, "COMPLETION", tuple(step for step in COMPLETION if step.name != name))
    found = [(v.kind, v.message) for v in make().check().violations]
    assert any(kind == k and words in message for k, message in found), found


def test_tickets_are_only_for_kernels_that_have_a_last_block() -> None:
    """A loop between the block loops is refused by itself (scripts/fuzz, whole 133020336, where check raised)."""
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.int64, [N])
    s = f.reduction("s", {i: 3}, {k: N}, tm.sum, a[k])
    f.outputs(s)
    s.update.split(k, 4, k0, k1)
    s.update.tag_gpu(blocks=[i, k0], threads=[k1], combine=tm.TREE, across=tm.LAST_BLOCK)
    s.init.coarsen(i, 3, c)
    (violation,) = f.check().violations
    assert "runs on blocks, but loop c between it and the block loops i does not" in violation.message
