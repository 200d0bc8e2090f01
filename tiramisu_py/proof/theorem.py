"""The proof of a program: every condition of the theorem, with the command to blame where one fails."""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Mapping
from dataclasses import replace

import islpy as isl

from tiramisu_py.algorithm.declare import soundness
from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.algorithm.operators import Determinism
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import Violation, Witness
from tiramisu_py.program.program import Program
from tiramisu_py.proof.blame import NOT_FOUND, Completion, History
from tiramisu_py.proof.budget import OPERATIONS, Budget, is_used_up, reason
from tiramisu_py.proof.conditions import CONDITIONS
from tiramisu_py.proof.reductions import bits, grades
from tiramisu_py.proof.report import PRESERVED, Report
from tiramisu_py.proof.sentences import proven, trusted
from tiramisu_py.proof.violations.condition import Condition
from tiramisu_py.proof.violations.findings import Finding


def check(program: Program, operations: int = OPERATIONS, completion: Completion | None = None) -> Report:
    """Prove that a program computes the values that its algorithm names, or say why not.

    Errors of the algorithm come first, and alone: no schedule is blamed for them. A condition that isl cannot decide
    within its part of the budget of `operations`, or at all, is a violation of kind "unknown", unless the program
    asserts it by name. Once a program is refused, the remaining conditions have a small share of the budget; the
    report says which of them were not examined. `completion` is what the program has gone through since its last
    command: earlier states go through it too when they are examined to find the command to blame.
    """
    start = time.perf_counter()
    with Budget(program.algorithm.isl_context, operations) as budget:
        report = _Check(program, budget, completion).report()
    return replace(report, seconds=time.perf_counter() - start, program=program)


def given_up(name: str, condition: str, error: isl.Error) -> Report:
    """The report of a program for which isl could not even construct what is to be proven."""
    return Report(name, (_undecided(condition, error),))


class _Check:
    """One check of one program; the states of its history are looked at only to find the command to blame."""

    def __init__(self, program: Program, budget: Budget, completion: Completion | None = None) -> None:
        self.program = program
        self.budget = budget
        self.values = ValueSets(program.algorithm)
        self.history = History(program, self.values, completion)
        self.asserted: list[str] = []
        self.unexamined: list[str] = []

    def report(self) -> Report:
        """The report of the violations, or of the proof."""
        name = self.program.algorithm.name
        violations = self._unsound() or self._unproven()
        if violations:
            return Report(name, tuple(violations), unexamined=tuple(self.unexamined))
        kept, held = self._bits()
        self.budget.begin_share()
        try:
            relied = self._flow.exclusions.relied
            known = trusted(self.program, self.values, self.asserted, relied)
            facts = proven(self.program, CONDITIONS, self.asserted), known
        except isl.Error as error:
            return given_up(name, "what is taken on trust", error)
        return Report(name, (), *facts, kept, held)

    def _unsound(self) -> list[Violation]:
        """The errors of the algorithm."""
        try:
            return soundness.violations(self.values)
        except isl.Error as error:
            return self._given_up("algorithm", error)

    def _unproven(self) -> list[Violation]:
        """Why the program is refused, each reason with the command to blame."""
        found = self._found()
        if any(not isinstance(one, Violation) for one in found):
            self.budget.begin_share()
        return _distinct([one if isinstance(one, Violation) else self._blamed(*one) for one in found])

    def _blamed(self, condition: Condition, finding: Finding) -> Violation:
        violation = self.history.blamed(condition, finding)
        if violation.command == NOT_FOUND:
            self.budget.given_up()
        return violation

    def _found(self) -> list[tuple[Condition, Finding] | Violation]:
        """The findings, by the order of the conditions and then by their sizes; "unknown" where isl gave up."""
        found: list[tuple[Condition, Finding] | Violation] = []
        refused = False
        for position, condition in enumerate(CONDITIONS):
            here: list[Finding] = []
            try:
                for finding in condition.findings(self._flow, None):
                    insort(here, finding, key=_size)
                    if not refused:
                        refused = True
                        self.budget.begin_share()
            except isl.Error as error:
                if not refused:
                    found += self._given_up(condition.name, error)
                elif is_used_up(error):
                    self.unexamined += [other.name for other in CONDITIONS[position:]]
                else:
                    found.append(_undecided(condition.name, error))
            found += [(condition, finding) for finding in here]
            if self.unexamined or any(map(condition.stops, here)):
                break
        return found

    @property
    def _flow(self) -> Flow:
        return self.history.flow(self.program)

    def _given_up(self, condition: str, error: isl.Error) -> list[Violation]:
        self.budget.given_up()
        if condition in self.program.calls.asserted:
            self.asserted.append(condition)
            return []
        return [_undecided(condition, error)]

    # -- bits

    def _bits(self) -> tuple[str, Mapping[str, Determinism]]:
        """Whether bits are preserved, or which commands give them up; and the grade of each reduction."""
        try:
            held = grades.grades(self._flow)
            sentences = [self._who_reordered(name, held[name]) for name in bits.reordered(self._flow)]
        except isl.Error as error:
            return f"it is not known whether bits are preserved ({reason(error)})", {}
        return "; ".join(sentences) or PRESERVED, held

    def _who_reordered(self, name: str, grade: Determinism) -> str:
        algorithm = self.program.algorithm
        computation = bits.whole_of(algorithm, algorithm.computations[name])
        if bits.chooses(computation):
            return f"bits of {name} preserved, but for the sign of zero and the payload of NaN"
        instruction = grades.tensorized(self.program, name)
        means = grades.MEANING[grade] if instruction is None else f"{instruction.name}: {instruction.given_up}"
        return f"{self._by_whom(name)} ({grade}: {means})"

    def _by_whom(self, name: str) -> str:
        reordered = {bits.order_of_terms(self.program, name): True}

        def has(state: Program) -> bool:
            own = bits.order_of_terms(state, name)
            if own not in reordered:
                flow = self.history.flow(state, completed=bits.may_be_combined(state, name))
                reordered[own] = bits.is_split(state, name) or bits.is_reordered(flow, name)
            return reordered[own]

        changed = self.history.last_change_of_state(has)
        if changed is None or changed.origin.command is None:
            return f"bits given up: the terms of {name} are not combined in lexicographic order"
        by = changed.origin.command.text
        return f"bits given up by {by}: it changes the order in which the terms of {name} are combined"


def _size(finding: Finding) -> int:
    return sum(finding.violation.witness.params.values())


def _undecided(condition: str, error: isl.Error) -> Violation:
    message = f"the condition {condition!r} could not be decided ({reason(error)})"
    repair = "use constant sizes where you can, or fewer loops"
    return Violation("unknown", message, Witness({}), repair=repair)


def _distinct(violations: list[Violation]) -> list[Violation]:
    return list({(v.kind, v.message): v for v in violations}.values())
