"""The table of long runs in docs/trust.md: one row for each first seed, written by the run itself."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from tests.oracle.product.state import DEFECTS, STRICT, WRONG, State

PAGE = Path(__file__).resolve().parents[3] / "docs" / "trust.md"
FIRST, LAST = "<!-- fuzz: the rows below are written by scripts/fuzz --record -->", "<!-- fuzz: end -->"
HEAD = (
    "| date | first seed | hours of one process | judged | compiled | run after each pass | accepted and wrong "
    "| refused though right | other defects | finds by quarter |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


def row(state: State, today: str) -> str:
    """One row: what a run with this seed has come to so far."""
    came = Counter(each["came"] for each in state.finds)
    judged = state.programs
    strict = state.total(STRICT)
    share = f"{strict} ({100 * strict / judged:.2f} %)" if judged else "0"
    cells = [
        today, state.seed, f"{state.seconds * state.processes / 3600:.2f}", f"{judged:,}",
        f"{state.total('compiled'):,}", f"{state.total('run'):,}", sum(came[sort] for sort in WRONG), share,
        sum(came[sort] for sort in DEFECTS), by_quarter(state),
    ]  # fmt: skip
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def by_quarter(state: State) -> str:
    """How many finds, refusals of what is right among them, came in each quarter of the programs."""
    counts = [0, 0, 0, 0]
    for each in state.finds:
        counts[min(3, 4 * each["after"] // max(1, state.programs))] += 1
    return ", ".join(map(str, counts))


def recorded(text: str, state: State, today: str) -> str:
    """The page with the row of this state, in place of one with the same seed."""
    before, _, rest = text.partition(FIRST)
    rows, _, after = rest.partition(LAST)
    kept = [line for line in rows.splitlines() if line.startswith("| 2") and f"| {state.seed} |" not in line]
    table = "\n".join([*HEAD, *kept, row(state, today)])
    return f"{before}{FIRST}\n\n{table}\n\n{LAST}{after}"


def record(state: State) -> None:
    """Write the row."""
    today = datetime.now(UTC).date().isoformat()
    PAGE.write_text(recorded(PAGE.read_text(), state, today))
