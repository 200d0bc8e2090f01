"""The page of all mutations, with the test that catches each."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import date

from tests.mutations.lists import PARTS, mutations
from tests.mutations.mutation import ROOT, Mutation

PAGE = ROOT / "docs" / "results" / "mutations.md"
HEAD = """# The compiler made wrong, one place at a time

Each line is one small change of the compiler: a condition dropped, a bound off by one, a wait or a barrier forgotten.
Under each of them the test beside it fails; `scripts/mutations` makes all of them, one after another, and writes this
page. A plain run of the tests makes some, and looks whether all can still be made (`tests/mutations/`).

More are made elsewhere: each pass over the loops is skipped, or stores to the next element
(`tests/passes/test_wrong_passes.py`); programs lose their barriers, waits and messages
(`tests/interpret/test_gpu_mutations.py`, `tests/mpi/test_rank_mutations.py`), and certificates their facts
(`tests/proof/certificates/`).
"""


def text(caught: Collection[Mutation], today: date) -> str:
    """The page, where these have been caught on a day."""
    return "\n".join(_lines(caught, today)) + "\n"


def _lines(caught: Collection[Mutation], today: date) -> Iterator[str]:
    listed = {part: mutations(part) for part in PARTS}
    count = sum(map(len, listed.values()))
    yield HEAD
    yield f"On {today.isoformat()}, when all that were listed were made, and when later ones were added:"
    yield f"{count} changes, {len(caught)} caught."
    for part, some in listed.items():
        yield from ("", f"## {PARTS[part]}", "", "| wrong is then | in | caught by |", "|---|---|---|")
        yield from (_row(each, each in caught) for each in some)


def _row(each: Mutation, is_caught: bool) -> str:
    return f"| {each.what} | `{each.file}` | {f'`{_short(each.test)}`' if is_caught else '**nothing**'} |"


def _short(test: str) -> str:
    """A test without its parameters, which may have signs of tables."""
    return test.partition("[")[0]
