"""The command to blame: the first one after the last state of the program without the fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial

import islpy as isl

from tiramisu_py.algorithm.declare.soundness import ValueSets
from tiramisu_py.dependence.accesses import Memory, MemoryAccesses
from tiramisu_py.dependence.flow import Flow
from tiramisu_py.errors import CommandError, Violation
from tiramisu_py.program.initial import caught_up
from tiramisu_py.program.program import Program
from tiramisu_py.proof.violations.condition import Condition
from tiramisu_py.proof.violations.findings import Finding

#: The completion that a program goes through before it is proven.
Completion = Callable[[Program], Program]

#: How many of the last states are examined one by one; earlier ones are searched by bisection.
ONE_BY_ONE = 16

NOT_FOUND = "(the command could not be found within the budget of the check)"


class History:
    """The states of a program, each with all declarations of the final one, and their dataflow."""

    def __init__(self, program: Program, values: ValueSets, completion: Completion | None = None) -> None:
        self.program = program
        self.values = values
        self.completion = completion
        self._flows: dict[tuple[int, bool], tuple[Program, Flow]] = {}  # with the state, whose id is in the key
        self._memory: Memory = {}

    def flow(self, state: Program, *, completed: bool = True) -> Flow:
        """The dataflow of a state of the program; of one that is not `completed`, that of its statements alone."""
        key = (id(state), completed)
        if key not in self._flows:
            same = state.algorithm is self.program.algorithm
            values = self.values if same else ValueSets(state.algorithm)
            whole = self._completed(state) if completed else state
            self._flows[key] = state, Flow(MemoryAccesses(whole, values, self._memory if same else None))
        return self._flows[key][1]

    def _completed(self, state: Program) -> Program:
        return state if self.completion is None or state is self.program else self.completion(state)

    @cached_property
    def states(self) -> list[Program]:
        """The history of the program, each state with all declarations of the final one."""
        return [caught_up(state, self.program) for state in self.program.history]

    def last_change(self, has: Callable[[Flow], bool]) -> Program | None:
        """The state that follows the last one without a property; None if all states have it.

        Among the last `ONE_BY_ONE` states this is exact. Further back a bisection finds a state that has the property
        while the one before lacks it; states between it and the end may lack it too.
        """
        return self.last_change_of_state(lambda state: has(self.flow(state)))

    def last_change_of_state(self, has: Callable[[Program], bool]) -> Program | None:
        """The last change of a property that need not ask for the dataflow of a state, whose completion takes long."""
        states = self.states
        first = max(len(states) - 1 - ONE_BY_ONE, 0)
        for position in range(len(states) - 2, first - 1, -1):
            if not has(states[position]):
                return states[position + 1]
        if not first or has(states[0]):
            return None
        without, having = 0, first
        while having - without > 1:
            middle = (without + having) // 2
            if has(states[middle]):
                having = middle
            else:
                without = middle
        return states[having]

    def blamed(self, condition: Condition, finding: Finding) -> Violation:
        """The violation with the command to blame: since this command the states have the finding of this key.

        A state that lacks transfers may have a finding of the same key for this reason alone. If transfers are derived
        later, the states before that are examined with their transfers.
        """
        has = partial(condition.finds, finding.key)
        try:
            blamed = self.last_change(has)
            if blamed is not None and self._may_lack_transfers(blamed, condition, finding):
                blamed = self._last_change_with_transfers(has) or blamed
        except isl.Error:
            return replace(finding.violation, command=NOT_FOUND)
        command = "" if blamed is None or blamed.origin.command is None else blamed.origin.command.text
        return replace(finding.violation, command=command)

    def _may_lack_transfers(self, blamed: Program, condition: Condition, finding: Finding) -> bool:
        """Whether transfers are derived by a command, and in its state or before the finding is of another kind."""
        if blamed.origin.command is not None and blamed.origin.command.command.derives:
            return True
        if not any(entry.command.derives for entry in self.program.log[len(blamed.log) :]):
            return False
        found = condition.findings(self.flow(blamed), finding.key)
        kinds = {one.violation.kind for one in found if one.key == finding.key}
        return finding.violation.kind not in kinds

    def _last_change_with_transfers(self, has: Callable[[Flow], bool]) -> Program | None:
        """The `last_change` before the command that derives transfers, with this command after each state."""
        end = next(
            at for at, state in enumerate(self.states) if state.origin.command and state.origin.command.command.derives
        )
        for position in range(end - 2, max(end - 2 - ONE_BY_ONE, -1), -1):
            state = self.states[position]
            try:
                for later in self.states[end:]:
                    assert later.origin.command is not None
                    state = later.origin.command.command.applied(state)
                if not has(self.flow(state)):
                    return self.states[position + 1]
            except (CommandError, isl.Error):
                return None
        return None
