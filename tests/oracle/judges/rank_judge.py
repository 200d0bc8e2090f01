"""The judge of programs with ranks: brute force over all executions at one size.

It shares nothing with the proof but the definition of a program. Memory is a rank's own, so that only executions of
one rank can be in conflict; and which messages meet does not depend on timing. So it suffices that on each rank
conflicting accesses are ordered (a nonblocking half lasts until its wait), that messages which meet name the same
values, that all of them do meet when no send is complete before its receive is posted, and that in one run, in order
of time, each read finds the value it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.oracle.judges.events import Misplaced, Place, linear, loads_first
from tests.oracle.judges.judge import Failure, Run, _box, _outside, _race
from tests.oracle.judges.plain import Point, integers
from tests.oracle.judges.rank_acts import Act
from tests.oracle.judges.rank_events import Channel, Parcel, RankExecution, Wait
from tests.oracle.judges.values import Named, Values
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role


def judge(program: Program, params: Mapping[str, int], given: Values | None = None) -> list[Failure]:
    """Everything that goes wrong at these parameters; `given` are the values where arrays decide which there are."""
    values = Values(program.algorithm, params) if given is None else given
    faults = values.faults()
    if faults:
        return [Failure(kind, "the algorithm itself") for kind in sorted(faults)]
    execution = RankExecution(program, params, values)
    try:
        acts = execution.acts()
        parcels = execution.parcels(acts)
        exits = _exits(execution)
        waits = execution.waits(parcels)
    except Misplaced as error:
        return [Failure("reach", str(error))]
    for wait in sorted(waits, key=lambda wait: wait.time, reverse=True):
        for parcel in wait.parcels:
            if parcel.asynchronous and parcel.time < wait.time:
                parcel.done = wait.time
    found = [
        *_outside(execution, acts, [(place, value) for _, place, value in exits]),
        *_homeless(execution, exits),
        *_alone(execution, parcels),
        *_mismatched(parcels),
        *_stuck(execution, parcels, waits),
        *_unfinished(parcels, waits),
        *_races(execution, acts, parcels),
        *_reordered(execution, acts),
    ]
    for rank in execution.ranks:
        own = [act for act in acts if act.rank == rank]
        there = [(place, value) for holder, place, value in exits if holder == rank]
        found += RankRun(execution, there, rank=rank).failures(linear(own))
    return found


def _exits(execution: RankExecution) -> list[tuple[Point | None, Place, Named]]:
    """What the caller of each rank reads in the end, and where; None for what no rank holds."""
    found: list[tuple[Point | None, Place, Named]] = []
    for name in execution.program.algorithm.outputs:
        for index in sorted(execution.values.exist[name]):
            place = execution.outside_any_loop(name, index)
            holders = execution.holders(name, place[2])
            found += [(rank, place, (name, index)) for rank in holders or [None]]
    return found


def _homeless(execution: RankExecution, exits: Sequence[tuple[Point | None, Place, Named]]) -> list[Failure]:
    return [Failure("communication", f"no rank holds the output {value}") for rank, _, value in exits if rank is None]


# -- messages


def _alone(execution: RankExecution, parcels: Sequence[Parcel]) -> list[Failure]:
    """Messages to or from nobody, and halves that have no other half."""
    counts: dict[Channel, list[int]] = {}
    for parcel in parcels:
        counts.setdefault(parcel.channel, [0, 0])[parcel.sends] += 1
    return [
        Failure("communication", f"{sends} sends meet {receives} receives in {channel}")
        for channel, (receives, sends) in counts.items()
        if sends != receives or not {channel[1], channel[2]} <= set(execution.ranks)
    ]


def _mismatched(parcels: Sequence[Parcel]) -> list[Failure]:
    """Messages that meet, and are not of the same values."""
    sends = {(parcel.channel, parcel.number): parcel for parcel in parcels if parcel.sends}
    found = []
    for parcel in parcels:
        other = sends.get((parcel.channel, parcel.number))
        if not parcel.sends and other is not None:
            sent, taken = ([act.value for act in one.acts] for one in (other, parcel))
            if sent != taken:
                found.append(Failure("communication", f"{other} sends {sent}, {parcel} takes {taken}"))
    return found


def _stuck(execution: RankExecution, parcels: Sequence[Parcel], waits: Sequence[Wait]) -> list[Failure]:
    """Ranks that never come to their ends, when each send needs its receive to be posted."""
    left: dict[Point, list[Parcel | Wait]] = {rank: [] for rank in execution.ranks}
    for step in sorted([*parcels, *waits], key=lambda step: step.time):
        left[step.rank].append(step)
    posted: set[tuple[Channel, bool, int]] = set()

    def met(parcel: Parcel) -> bool:
        return parcel.buffered or (parcel.channel, not parcel.sends, parcel.number) in posted

    moved = True
    while moved:
        moved = False
        for steps in left.values():
            while steps:
                step = steps[0]
                if isinstance(step, Parcel):
                    posted.add((step.channel, step.sends, step.number))
                    ready = step.asynchronous or met(step)
                else:
                    ready = all(met(parcel) for parcel in step.parcels if parcel.time < step.time)
                if not ready:
                    break
                steps.pop(0)
                moved = True
    return [Failure("deadlock", f"{steps[0]} waits forever") for steps in left.values() if steps]


def _unfinished(parcels: Sequence[Parcel], waits: Sequence[Wait]) -> list[Failure]:
    """Messages that nothing waits for, requests that are used again too early, waits before what they wait for."""
    found = [Failure("race", f"nothing waits for {parcel}") for parcel in parcels if parcel.done is None]
    for wait in waits:
        for parcel in wait.parcels:
            if wait.time < parcel.time:
                found.append(Failure("order", f"{wait} waits for {parcel}, which comes later"))
    for a in parcels:
        for b in parcels:
            same = a.slot is not None and a.slot == b.slot and a.statement.name == b.statement.name
            if not same or a.rank != b.rank or a.time >= b.time:
                continue
            if a.done is None or b.time < a.done:
                found.append(Failure("race", f"{b} uses the request of {a}"))
            for wait in waits:
                is_open = b.time < wait.time and (b.done is None or wait.time < b.done)
                if a in wait.parcels and b not in wait.parcels and is_open:
                    found.append(Failure("race", f"{wait}, for {a}, finds {b} in its request"))
    return found


# -- memory


def _races(execution: RankExecution, acts: Sequence[Act], parcels: Sequence[Parcel]) -> list[Failure]:
    """Conflicting accesses of a rank that nothing orders."""
    computations = execution.program.algorithm.computations
    locked = {name for name, computation in computations.items() if computation.ordered}
    part_of = {act: parcel for parcel in parcels for act in parcel.acts}
    touched: dict[tuple[Point, Place], list[tuple[Act, bool]]] = {}
    for act in acts:
        for place in {place for place, _ in act.reads}:
            touched.setdefault((act.rank, place), []).append((act, False))
        if act.role is not Role.SEND:
            touched.setdefault((act.rank, act.target), []).append((act, True))
    found = []
    for (rank, place), accesses in touched.items():
        for position, (a, writes) in enumerate(accesses):
            for b, too in accesses[:position]:
                if a is b or not (writes or too):
                    continue
                p, q = part_of.get(a), part_of.get(b)
                if p is None and q is None:
                    ahead = writes != too and loads_first(*((b, a) if writes else (a, b)))
                    wrong = not ahead and _race(a, b, writes and too and a.value[0] not in locked)
                else:
                    wrong = p is q or not (_before(a, p, b, q) or _before(b, q, a, p))
                if wrong:
                    found.append(Failure("race", f"nothing orders {b} and {a}, which meet at {place} on {rank}"))
    return found


def _reordered(execution: RankExecution, acts: Sequence[Act]) -> list[Failure]:
    """Terms whose order is locked, and which ranks combine in an order of theirs."""
    computations = execution.program.algorithm.computations
    ordered = (act for act in acts if act.collects and computations[act.value[0]].ordered)
    return [Failure("reduction", f"{act} is combined in another order, though it is locked") for act in ordered]


def _before(a: Act, p: Parcel | None, b: Act, q: Parcel | None) -> bool:
    """Whether an execution (as part of its message) is complete before another one begins."""
    end = a.time if p is None else p.done
    return end is not None and end < (b.time if q is None else q.time)


@dataclass
class RankRun(Run):
    """One run of the executions on one rank."""

    rank: Point = ()

    def failures(self, order: Sequence[Act]) -> list[Failure]:  # type: ignore[override]
        """Enter, run the executions, leave."""
        before = self._enter()
        for act in order:
            for place, value in act.reads:
                self._check(place, value, f"{act} on {self.rank}")
            if act.stores:
                self._write(act.target, self._stored(act))
        for place, value in self.exits:
            self._check(place, value, f"the caller on {self.rank}")
        outputs = {place for place, _ in self.exits}
        for place, content in before.items():
            if self.held[place] != content and place not in outputs:
                self.found.append(Failure("overwritten", f"the caller's {place} has been changed on {self.rank}"))
        return self.found

    def _enter(self) -> dict[Place, object]:  # type: ignore[override]
        """Fill the rank's own parts of the caller's arrays."""
        execution = self.execution
        assert isinstance(execution, RankExecution)
        program, values = execution.program, execution.values
        for buffer in program.buffers.values():
            sources = [s.source for s in program.storages.values() if s.buffer == buffer.name]
            dealt = next((source for source in sources if source in program.ranks.distributions), buffer.name)
            for element in _box(integers(buffer.extents, execution.params)) if buffer.argument else ():
                if self.rank in execution.holders(dealt, element):
                    self._write((buffer.name, (), element), (f"the caller's {buffer.name}", element))
        for source in program.algorithm.inputs.values():
            for index in _box(values.shape(source)) if not source.scalar else ():
                place = execution.outside_any_loop(source.name, index)
                if self.rank in execution.holders(source.name, place[2]):
                    self._write(place, (source.name, index))
        return dict(self.held)
