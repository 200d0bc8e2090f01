"""A condition of the theorem: what it finds in a program, and what the report says where it finds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum, auto

from tiramisu_py.dependence.flow import Flow
from tiramisu_py.program.program import Program
from tiramisu_py.proof.violations.findings import Finding, Key

#: What a condition finds in a program. With a key, only findings of this key are asked for, whatever else is wrong: a
#: condition that says the first of several reasons alone does not leave this one out then. Others may be among them.
Findings = Callable[[Flow, Key | None], Iterator[Finding]]


class Topic(IntEnum):
    """What sentences of a report are about, in the order in which they stand there."""

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
    """What a report says of a program that a condition holds of; "" where that would say nothing of the program."""

    topic: Topic
    text: Callable[[Program], str]


def never(finding: Finding) -> bool:
    """No finding of the condition takes the meaning from those after it."""
    return False


def out_of_reach(finding: Finding) -> bool:
    """Whether something is accessed, or run, where it cannot be: what it would compute there is not defined."""
    return finding.violation.kind == "reach"


@dataclass(frozen=True)
class Condition:
    """One condition of the theorem, by the name of its module.

    `findings` is what violates it, `says` what a report says where nothing does, and `stops` which findings leave no
    meaning to the conditions after it.
    """

    name: str
    findings: Findings
    says: tuple[Sentence, ...] = ()
    stops: Callable[[Finding], bool] = never

    def finds(self, key: Key, flow: Flow) -> bool:
        """Whether a state of the program has the finding of this key."""
        return any(finding.key == key for finding in self.findings(flow, key))
