"""The report's counterexamples, as pairs of instances of a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiramisu_py.errors import Violation
from tiramisu_py.proof import Report
from tiramisu_py.view.pictures.scene import (
    PicturedInstance,
    PicturedRead,
    PicturedStatement,
    PicturedViolation,
    Point,
)

Named = tuple[str, Point]


def pictured_violations(
    report: Report,
    sizes: Mapping[str, int],
    statements: Sequence[PicturedStatement],
    instances: Sequence[PicturedInstance],
    reads: Sequence[PicturedRead],
) -> tuple[PicturedViolation, ...]:
    """Each reason of a refusal, with its pair of instances at these sizes where there is one."""
    storing: dict[Named, list[int]] = {}
    for instance in instances:
        statement = statements[instance.statement]
        if statement.role not in ("copy", "send", "wait", "barrier"):
            storing.setdefault((statement.source, instance.value), []).append(instance.order)
    return tuple(_one(violation, sizes, storing, reads) for violation in report.violations)


def _one(
    violation: Violation, sizes: Mapping[str, int], storing: Mapping[Named, list[int]], reads: Sequence[PicturedRead]
) -> PicturedViolation:
    witness = violation.witness
    sides = (witness.writer, witness.reader)
    pair = _wrong_read(*sides, storing, reads) or _named(*sides, storing)
    here = all(sizes.get(name) == value for name, value in witness.params.items())
    if not here and not any(read.wrong for read in reads):
        pair = (None, None)
    return PicturedViolation(
        violation.kind, violation.message, violation.command, violation.repair, dict(witness.params), *pair, here=here
    )


def _wrong_read(
    writer: Named | None, reader: Named | None, storing: Mapping[Named, list[int]], reads: Sequence[PicturedRead]
) -> tuple[int | None, int | None] | None:
    """The pair of a read that finds another value than the one that it names."""
    if writer is None or reader is None:
        return None
    readers = set(storing.get(reader, ()))
    for read in reads:
        if read.wrong and read.reader in readers and (read.source, read.value) == writer:
            return next(iter(storing.get(writer, ())), None), read.reader
    return None


def _named(
    writer: Named | None, reader: Named | None, storing: Mapping[Named, list[int]]
) -> tuple[int | None, int | None]:
    first = None if writer is None else next(iter(storing.get(writer, ())), None)
    second = None if reader is None else next((at for at in reversed(storing.get(reader, ())) if at != first), None)
    return first, second
