"""The result of a check: violations, what was proven, and the facts taken on trust."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, field
from functools import cached_property
from typing import Any

from tiramisu_py.algorithm.operators import Determinism
from tiramisu_py.errors import Violation
from tiramisu_py.program.program import Program
from tiramisu_py.proof.superfluous import superfluous
from tiramisu_py.records import dataclass
from tiramisu_py.styles import as_html, for_prompt, styled

PRESERVED = "bits preserved"
#: The styles of the lines of a report, by patterns of what is at their beginning.
_STYLES = {
    r"\S+: proven": "good",
    r"\S+: refused": "bad",
    r" +repair:": "advice",
    r" +on trust:": "doubt",
    r" +not examined:": "doubt",
}


@dataclass(frozen=True, repr=False)
class Report:
    """The result of a check of one program.

    `violations` are empty exactly where the program is `ok`; `proven` says in words what was proven, `trusted` what
    was taken on trust; `bits` is "bits preserved", or says which command gave them up; `determinism` has the grade of
    each reduction by name, ``str(report.determinism["total"]) == "everywhere"``; `seconds` is the time it took;
    `program` is what was checked. `unexamined` names the conditions of a refused program that were not examined to the
    end, since they take long and the program is refused anyway.
    """

    name: str
    violations: tuple[Violation, ...] = ()
    proven: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    bits: str = PRESERVED
    determinism: Mapping[str, Determinism] = field(default_factory=dict)
    seconds: float = field(default=0.0, compare=False)
    program: Program | None = field(default=None, compare=False, repr=False)
    unexamined: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the program computes what the algorithm says."""
        return not self.violations

    @cached_property
    def superfluous(self) -> tuple[str, ...]:
        """The names of waits and barriers without any one of which the program is still proven; computed on first use.

        Each is tried alone: if two do the same, both are named, though one of them is needed. For messages that bring
        more than is needed, a sentence says what.
        """
        return superfluous(self.program) if self.ok and self.program is not None else ()

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data: dictionaries, lists, strings and numbers."""
        return {
            "name": self.name,
            "ok": self.ok,
            "violations": [{**asdict(v), "witness": _plain(asdict(v.witness))} for v in self.violations],
            "proven": list(self.proven),
            "trusted": list(self.trusted),
            "bits": self.bits,
            "determinism": {name: str(grade) for name, grade in self.determinism.items()},
            "unexamined": list(self.unexamined),
            "seconds": self.seconds,
        }

    def styled(self) -> str:
        """The report in colours, for a terminal."""
        return styled(str(self), _STYLES)

    def __repr__(self) -> str:
        """At a prompt: the report, in colours if the terminal takes them."""
        return for_prompt(str(self), _STYLES)

    def _repr_html_(self) -> str:
        """In a notebook: the report in colours."""
        return as_html(str(self), _STYLES)

    def __str__(self) -> str:
        took = f"{1000 * self.seconds:.0f} ms"
        if not self.ok:
            count = "1 reason" if len(self.violations) == 1 else f"{len(self.violations)} reasons"
            left = [f"  not examined: {', '.join(self.unexamined)}"] if self.unexamined else []
            reasons = [_indented(str(v)) for v in self.violations]
            return "\n".join([f"{self.name}: refused, {count} ({took})", *reasons, *left])
        lines = [f"{self.name}: proven ({took})", *(f"  {fact}" for fact in self.proven), f"  {self.bits}"]
        return "\n".join([*lines, *(f"  on trust: {fact}" for fact in self.trusted)])


def _plain(given: Any) -> Any:
    if isinstance(given, dict):
        return {key: _plain(value) for key, value in given.items()}
    return [_plain(value) for value in given] if isinstance(given, tuple | list) else given


def _indented(text: str) -> str:
    return textwrap.indent(text, "  ")
