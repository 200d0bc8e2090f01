"""The proof of a program: every condition of the theorem, with the command to blame where one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial

import islpy as isl

from tiramisu_py.algorithm import soundness
from tiramisu_py.algorithm.soundness import Values
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.dependence.touches import Memory, Touches
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.proof import (
    bits,
    collectives,
    combining,
    deadlock,
    executors,
    holders,
    kernels,
    matching,
    memories,
    padding,
    places,
    races,
    rank_reductions,
    reductions,
    repeats,
    requests,
    strays,
    threads,
    trees,
    values,
    waits,
)  # fmt: skip
from tiramisu_py.proof.findings import Finding
from tiramisu_py.proof.report import PRESERVED, Report
from tiramisu_py.proof.trust import proven, trusted
from tiramisu_py.proof.windows import in_window
from tiramisu_py.schedule.initial import caught_up

#: isl does about 2.8 million operations a second; a check that needs more than half a minute is given up.
OPERATIONS = 80_000_000

#: The conditions in the order in which they are tried, by the names under which they can be asserted.
CONDITIONS: tuple[tuple[str, Callable[[Flow], Iterator[Finding]]], ...] = (
    ("kernels", kernels.findings),
    ("executors", in_window(executors.findings)),
    ("holders", holders.findings),
    ("memories", memories.findings),
    ("places", places.findings),
    ("values", values.findings),
    ("reductions", reductions.findings),
    ("order", bits.findings),
    ("races", races.findings),
    ("repeats", repeats.findings),
    ("padding", padding.findings),
    ("threads", threads.findings),
    ("trees", trees.findings),
    ("waits", waits.findings),
    ("requests", requests.findings),
    ("combining", combining.findings),
    ("ranks", rank_reductions.findings),
    ("arrays", strays.findings),
    ("messages", in_window(matching.findings)),
    ("collectives", collectives.findings),
    ("deadlock", in_window(deadlock.findings)),
)


#: What is done to a program before it is proven.
Completion = Callable[[Program], Program]


def check(program: Program, operations: int = OPERATIONS, completion: Completion | None = None) -> Report:
    """Prove that a program computes the values that its algorithm names, or say why not.

    Errors of the algorithm come first, and alone: no schedule is blamed for them. A condition that isl cannot decide
    within its budget of `operations` is a violation of kind "unknown", unless the program asserts it by name.
    `completion` is what the program has gone through since its last command: its earlier states go through it too,
    where they are looked at to find the command to blame.
    """
    start = time.perf_counter()
    done = _Check(program, completion)
    with _budget(program.algorithm.isl_context, operations):
        violations = done.violations()
        kept = PRESERVED if violations else done.bits()
    report = done.report(violations, kept)
    return replace(report, seconds=time.perf_counter() - start, program=program)


@contextmanager
def _budget(context: isl.Context, operations: int) -> Iterator[None]:
    before = context.get_max_operations()
    context.reset_operations()
    context.set_max_operations(operations)
    try:
        yield
    finally:
        context.set_max_operations(before)
        context.reset_operations()


class _Check:
    """One check of one program; the states of its history are looked at only to find the command to blame."""

    def __init__(self, program: Program, completion: Completion | None = None) -> None:
        self.program = program
        self.completion = completion
        self.values = Values(program.algorithm)
        self.flows: dict[int, Flow] = {}
        self.memory: Memory = {}
        self.asserted: list[str] = []

    def report(self, violations: list[Violation], kept: str) -> Report:
        """The report of these violations, or of the proof."""
        name = self.program.algorithm.name
        if violations:
            return Report(name, tuple(violations))
        facts = proven(self.program, self.asserted), trusted(self.program, self.values, self.asserted)
        return Report(name, (), *facts, kept)

    def violations(self) -> list[Violation]:
        """Why the program is refused; errors of the algorithm alone, if there are any."""
        return self._unsound() or self._unproven()

    def _unsound(self) -> list[Violation]:
        try:
            return soundness.violations(self.values)
        except isl.Error as error:
            return self._given_up("algorithm", error)

    def _unproven(self) -> list[Violation]:
        violations: list[Violation] = []
        for name, condition in CONDITIONS:
            found: list[Violation] = []
            try:
                for finding in condition(self._flow(self.program)):
                    found.append(self._blamed(finding))
            except isl.Error as error:
                found += self._given_up(name, error)
            violations += sorted(found, key=lambda violation: sum(violation.witness.params.values()))
            if any(violation.kind == "reach" for violation in found) or (name == "executors" and self._is_homeless()):
                break
        return _distinct(violations)

    def _is_homeless(self) -> bool:
        """Whether a computation runs on ranks that do not exist."""
        flow = self._flow(self.program)
        return bool(self.program.rank_axes) and any(
            executors.is_homeless(flow, statement) for statement in self.program.statements.values()
        )

    def _given_up(self, condition: str, error: isl.Error) -> list[Violation]:
        self.program.algorithm.isl_context.reset_operations()
        if condition in self.program.asserted:
            self.asserted.append(condition)
            return []
        message = f"the condition {condition!r} could not be decided ({_reason(error)})"
        return [Violation("unknown", message, Witness({}), repair="use constant sizes where you can, or fewer loops")]

    # -- blame

    def _flow(self, state: Program) -> Flow:
        if id(state) not in self.flows:
            same = state.algorithm is self.program.algorithm
            values = self.values if same else Values(state.algorithm)
            self.flows[id(state)] = Flow(Touches(self._completed(state), values, self.memory if same else None))
        return self.flows[id(state)]

    def _completed(self, state: Program) -> Program:
        return state if self.completion is None or state is self.program else self.completion(state)

    def _blamed(self, finding: Finding) -> Violation:
        """The violation with the command after the last state of the program that does not have it."""
        try:
            blamed = self._last_change(finding.persists)
        except isl.Error:
            self.program.algorithm.isl_context.reset_operations()
            return finding.violation
        command = "" if blamed is None or blamed.command is None else blamed.command.text
        return replace(finding.violation, command=command)

    @cached_property
    def _states(self) -> list[Program]:
        """The history of the program, each state with everything that is declared by now."""
        return [caught_up(state, self.program) for state in self.program.history]

    def _last_change(self, persists: Callable[[Flow], bool]) -> Program | None:
        """The state of the program after the last one that has not a property; None where all states have it."""
        states = self._states
        for earlier, later in zip(reversed(states[:-1]), reversed(states[1:]), strict=True):
            if not persists(self._flow(earlier)):
                return later
        return None

    # -- bits

    def bits(self) -> str:
        """Whether bits are preserved, or which commands give them up."""
        try:
            sentences = [self._who_reordered(name) for name in bits.reordered(self._flow(self.program))]
        except isl.Error as error:
            return f"it is not known whether bits are preserved ({_reason(error)})"
        return "; ".join(sentences) or PRESERVED

    def _who_reordered(self, name: str) -> str:
        changed = self._last_change(partial(bits.is_reordered, name=name))
        if changed is None or changed.command is None:
            return f"bits given up: the terms of {name} are not combined in lexicographic order"
        by = changed.command.text
        return f"bits given up by {by}: it changes the order in which the terms of {name} are combined"


def _reason(error: isl.Error) -> str:
    text = str(error)
    return "isl's budget of operations is used up" if "maximal number of operations" in text else text.splitlines()[0]


def _distinct(violations: list[Violation]) -> list[Violation]:
    return list({(v.kind, v.message): v for v in violations}.values())
