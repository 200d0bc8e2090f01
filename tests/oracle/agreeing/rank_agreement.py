"""Whether the proof and the judge agree about a program with ranks, and whether its ranks compute what they should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.oracle.agreeing.agreement import Array, Verdict, inputs, verdict
from tests.oracle.generators.script import Script
from tests.oracle.judges.judge import Failure, sizes
from tests.oracle.judges.rank_arrays import differing, ran_on_ranks
from tests.oracle.judges.rank_events import RankExecution
from tests.oracle.judges.rank_judge import judge
from tests.oracle.judges.values import Values
from tiramisu_py.interpret import InterpretError
from tiramisu_py.ir import LoopFunction
from tiramisu_py.program.statement import Role


def judged(script: Script, params: Mapping[str, int], given: Values | None = None) -> list[Failure]:
    """What the judge finds."""
    return judge(script.program, params, given)


def small(script: Script) -> list[dict[str, int]]:
    """Sizes from nothing to a few blocks and something left over, or in two dimensions less."""
    return sizes(script.program, 7 if len(script.program.algorithm.params) == 1 else 3)


def compared(script: Script) -> Verdict:
    """The proof's verdict beside the judge's, at all small sizes and at the proof's counterexamples."""
    return verdict(script, judged, small(script))


def communicates(script: Script) -> bool:
    """Whether some message is part of the program."""
    return any(statement.role is Role.SEND for statement in script.program.statements.values())


@dataclass(frozen=True)
class RankCall:
    """One call of a proven program on ranks: its inputs, what it sends, and what `evaluate()` says."""

    script: Script
    params: Mapping[str, int]
    seed: int

    @cached_property
    def given(self) -> dict[str, Array]:
        """The inputs, whole."""
        return inputs(self.script, self.params, self.seed)

    @cached_property
    def expected(self) -> Any:
        """The outputs, as `evaluate()` returns them."""
        return self.script.function.evaluate(**self.given, **self.params)

    @cached_property
    def sent(self) -> tuple[int, int, int]:
        """How many messages, elements and bytes the program names."""
        return named(self.script, self.params)

    def wrong_loops(self, function: LoopFunction, timing: int) -> str:
        """What is wrong with one run of the loops; empty where nothing is."""
        try:
            ran = ran_on_ranks(self.script.function, None, timing, function=function, **self.given, **self.params)
        except (InterpretError, AssertionError) as error:
            return f"at {dict(self.params)}: {error}"
        outputs = ran.outputs if len(ran.outputs) > 1 else ran.outputs[0]
        sent = ran.traffic.sent  # what ranks combine is no message
        counted = (len(sent), sum(one.elements for one in sent), sum(one.bytes for one in sent))
        if counted != self.sent:
            return f"{counted} are sent, {self.sent} in the program (messages, elements, bytes)"
        wrong = differing(self.script.function, outputs, self.expected, self.params)
        return wrong and f"at {dict(self.params)}: {wrong}"


def wrong_run(script: Script, function: LoopFunction, params: Mapping[str, int], seed: int) -> str:
    """What is wrong with one run of the loops; empty where nothing is."""
    return RankCall(script, params, seed).wrong_loops(function, seed)


def named(script: Script, params: Mapping[str, int]) -> tuple[int, int, int]:
    """How many messages, elements and bytes the sends of the program are."""
    execution = RankExecution(script.program, params, Values(script.program.algorithm, params))
    parcels = [parcel for parcel in execution.parcels(execution.acts()) if parcel.sends]
    sources = script.program.algorithm.source
    elements = [len(parcel.acts) for parcel in parcels]
    width = [len(parcel.acts) * sources(parcel.statement.source).dtype.numpy.itemsize for parcel in parcels]
    return len(parcels), sum(elements), sum(width)


def needed(script: Script, params: Mapping[str, int]) -> int:
    """How many elements must be sent at least: what each rank reads, or gives its caller, and neither has nor stores.

    Each value counts once for each rank, as often as it is needed; where its place is used again, it is not.
    """
    execution = RankExecution(script.program, params, Values(script.program.algorithm, params))
    acts = [act for act in execution.acts() if script.program.statements[act.statement].link.message is None]
    stored = {(act.rank, act.value) for act in acts}
    wanted = {(act.rank, value) for act in acts for _, value in act.reads}
    for name in script.program.algorithm.outputs:
        for index in execution.values.exist[name]:
            wanted |= {
                (rank, (name, index)) for rank in execution.holders(name, execution.outside_any_loop(name, index)[2])
            }
    inputs_of = script.program.algorithm.inputs
    return sum(
        (rank, value) not in stored
        and not (value[0] in inputs_of and rank in execution.holders(value[0], execution.outside_any_loop(*value)[2]))
        for rank, value in wanted
    )
