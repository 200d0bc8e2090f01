"""The judge of programs for cores: iterations that run twice where vectors overlap, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.oracle.generators.script import Script
from tests.oracle.judges.events import Event, Execution, linear, misplaced
from tests.oracle.judges.judge import Failure, Run, _exits, judge
from tests.oracle.judges.values import Values
from tiramisu_py.program.loops import Loop, Vector


def judged(script: Script, params: Mapping[str, int]) -> list[Failure]:
    """Everything that goes wrong at these parameters, in the order of the loops and with iterations run again."""
    program = script.program
    if misplaced(program):
        return [Failure("reach", "a buffer is named outside of its loops")]
    found = judge(program, params)
    if found:
        return found
    if not any(_repeats(loop) for loop in program.loops.values()):
        return []
    execution = Execution(program, params, Values(program.algorithm, params))
    events = execution.events()
    again = repeated(events)
    return Run(execution, _exits(execution)).failures(linear([*events, *again])) if again else []


def repeated(events: Sequence[Event]) -> list[Event]:
    """The executions that vectors repeat which end with their loops, each after all others of its loop.

    A loop from l to u in strips of w has one more strip from u - w on where it has more than w iterations and w does
    not divide their number.
    """
    groups: dict[tuple[int, ...], list[Event]] = {}
    for event in events:
        for depth, loop in enumerate(event.loops):
            tag = loop.tag
            if isinstance(tag, Vector) and _repeats(loop):
                around = (other.id for other in event.loops[: depth + 1])
                own = (depth, tag.width, *around, *event.time[: 2 * depth + 1])
                groups.setdefault(own, []).append(event)
    found: list[Event] = []
    for (depth, width, *_), together in groups.items():
        at = 2 * depth + 1
        first, end = min(event.time[at] for event in together), max(event.time[at] for event in together) + 1
        count = end - first
        if count > width and count % width:
            whole = range(end - width, first + count // width * width)
            twice = [event for event in together if event.time[at] in whole]
            found += [replace(e, time=(*e.time[:at], e.time[at] + count, *e.time[at + 1 :])) for e in twice]
    return found


def _repeats(loop: Loop) -> bool:
    """Whether a loop's last vector ends with it."""
    tag = loop.tag
    return isinstance(tag, Vector) and tag.remainder == "overlap" and tag.combine is None
