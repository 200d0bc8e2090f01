"""The figures of long runs in docs/trust.md, written by the run itself: a row for each seed, sums, reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.oracle.fuzzing import SUMS
from tests.oracle.product.state import DEFECTS, STRICT, STRICT_SUMS, WRONG, State

PAGE = Path(__file__).resolve().parents[3] / "docs" / "trust.md"
FIRST, LAST = "<!-- fuzz: what is below is written by scripts/fuzz --record -->", "<!-- fuzz: end -->"
HEAD = (
    "date", "code", "first seed", "hours of one process", "judged", "compiled", "run after each pass",
    "accepted and wrong", "refused though right", "of reductions", "other defects", "finds per 1,000, by quarter",
    "slowest check, s",
)  # fmt: skip
#: Columns that are summed; those from the eighth on may say "-", where an older run did not count them.
HOURS, JUDGED, COMPILED, RUN, ACCEPTED, REFUSED, OF_SUMS, OTHER = range(3, 11)
#: What is to be reached.
GOAL_JUDGED, GOAL_COMPILED = 200_000, 10_000
Cells = Sequence[str]


def row(state: State, today: str) -> Cells:
    """One row: what a run with this seed has come to so far."""
    came = Counter(each["came"] for each in state.finds)
    return (
        today, ", ".join(state.code) or "-", str(state.seed), f"{state.seconds * state.processes / 3600:.2f}",
        f"{state.programs:,}", f"{state.total('compiled'):,}", f"{state.total('run'):,}",
        str(sum(came[sort] for sort in WRONG)), _share(state.total(STRICT), state.programs),
        _share(state.total(STRICT_SUMS), state.total(SUMS)), str(sum(came[sort] for sort in DEFECTS)),
        by_quarter(state), f"{state.slowest[0]:.1f} ({state.slowest[1]})" if state.slowest else "-",
    )  # fmt: skip


def _share(some: int, of: int) -> str:
    return f"{some} of {of:,} ({100 * some / of:.2f} %)" if of else "-"


def by_quarter(state: State) -> str:
    """How many finds, refusals of what is right among them, came of each 1,000 programs in each quarter of them."""
    counts = [0, 0, 0, 0]
    for each in state.finds:
        counts[min(3, 4 * each["after"] // max(1, state.programs))] += 1
    return ", ".join(f"{4000 * count / max(1, state.programs):.1f}" for count in counts)


def recorded(text: str, state: State, today: str) -> str:
    """The page with the row of this state, in place of one with the same seed; with the sums, and its reasons."""
    before, _, rest = text.partition(FIRST)
    rows, _, after = rest.partition(LAST)
    kept = [cells for cells in _known(rows) if cells[2] != str(state.seed)]
    kept.append(row(state, today))
    table = [HEAD, ["---"] * len(HEAD), *kept, total(kept)]
    lines = "\n".join(f"| {' | '.join(cells)} |" for cells in table)
    return f"{before}{FIRST}\n\n{lines}\n\n{sentence(kept)}\n\n{reasons(state)}{LAST}{after}"


def _known(text: str) -> list[Cells]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| 2")
    ]


def _number(cell: str) -> float:
    """The first number of a cell; none is 0."""
    found = re.match(r"[\d,.]+", cell)
    return float(found[0].replace(",", "")) if found else 0.0


def _sum(rows: Sequence[Cells], column: int) -> float:
    return sum(_number(cells[column]) for cells in rows)


def _of(rows: Sequence[Cells], column: int) -> tuple[int, int]:
    """The sums of "a of b"."""
    pairs = [cells[column].partition(" of ") for cells in rows]
    return int(sum(_number(a) for a, _, b in pairs if b)), int(sum(_number(b) for _, _, b in pairs))


def total(rows: Sequence[Cells]) -> Cells:
    """The row of sums."""
    cells = ["in all", "", "", f"{_sum(rows, HOURS):.2f}"]
    cells += [f"{int(_sum(rows, column)):,}" for column in (JUDGED, COMPILED, RUN, ACCEPTED)]
    return [*cells, _share(*_of(rows, REFUSED)), _share(*_of(rows, OF_SUMS)), str(int(_sum(rows, OTHER))), "", ""]


def sentence(rows: Sequence[Cells]) -> str:
    """How much of what is to be reached has been."""
    judged, compiled = int(_sum(rows, JUDGED)), int(_sum(rows, COMPILED))
    return (
        f"{judged:,} programs have been judged, {100 * judged / GOAL_JUDGED:.0f} % of the {GOAL_JUDGED:,} that are the "
        f"goal, and {compiled:,} compiled, {100 * compiled / GOAL_COMPILED:.0f} % of {GOAL_COMPILED:,}."
    )


def reasons(state: State) -> str:
    """What was refused though right in the run that was recorded last, by the words of the refusals."""
    if not state.reasons:
        return ""
    found = [f"- {count}: {why}" for why, count in state.reasons.most_common(12)]
    return (
        f"Refused though right from seed {state.seed} on, by the words of the refusal (the most frequent):\n\n"
        + "\n".join(found)
        + "\n\n"
    )


def record(state: State) -> None:
    """Write the row."""
    today = datetime.now(UTC).date().isoformat()
    PAGE.write_text(recorded(PAGE.read_text(), state, today))
