"""A condition of the theorem: what it finds in a program, and what the report says where it finds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum, auto

from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.program import Program
from tiramisu_py.proof.violations.findings import Finding, Key
from tiramisu_py.records import dataclass

#: The findings of a condition in a program. With a key, only findings of this key are asked for, whatever else is
#: wrong: a condition that otherwise reports only the first of several reasons does not leave this one out then. Others
#: may be among them.
Findings = Callable[[Flow, Key | None], Iterator[Finding]]


class Topic(IntEnum):
    """The topics of a report's sentences, in the order of the report."""

    VALUES = auto()
    REDUCTIONS = auto()
    RANKS = auto()
    MESSAGES = auto()
    COLLECTIVES = auto()
    OPERATIONS = auto()
    BARRIERS = auto()
    LOOPS = auto()


@dataclass(frozen=True)
class Sentence:
    """A sentence of the report on a program for which a condition holds; "" if the condition is void for it."""

    topic: Topic
    text: Callable[[Program], str]


def never(finding: Finding) -> bool:
    """No finding of the condition makes the conditions after it meaningless."""
    return False


def out_of_reach(finding: Finding) -> bool:
    """Whether something is accessed, or run, where it cannot be: what it would compute there is not defined."""
    return finding.violation.kind == "reach"


@dataclass(frozen=True)
class Condition:
    """One condition of the theorem, by the name of its module.

    `findings` yields what violates it, `says` is what a report says if nothing does, and `stops` tells which findings
    make the conditions after it meaningless.
    """

    name: str
    findings: Findings
    says: tuple[Sentence, ...] = ()
    stops: Callable[[Finding], bool] = never

    def finds(self, key: Key, flow: Flow) -> bool:
        """Whether a state of the program has the finding of this key."""
        return any(finding.key == key for finding in self.findings(flow, key))
