"""Every mutation can still be made, a few are made in each run, and the page lists all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from tests.mutations.lists import PARTS, every, mutations
from tests.mutations.mutation import Mutation, NotOnceError
from tests.mutations.page import PAGE, text
from tests.mutations.running import Overlay, overlay
from tests.selection import some

#: One of each of some parts, whose tests take about a second.
QUICK = (
    "lanes of a vector loop count as ordered",
    "an inclusive bound is taken for an exclusive one",
    "a sum that wraps saturates",
)


@pytest.fixture(scope="module")
def changed() -> Iterator[Overlay]:
    with overlay() as own:
        yield own


@pytest.mark.parametrize("each", some(every(), lambda each: each.what in QUICK), ids=lambda each: each.what)
def test_a_mutation_is_caught(each: Mutation, changed: Overlay) -> None:
    outcome = changed.outcome(each)
    assert outcome.is_caught, f"status {outcome.status}\n{outcome.output}"
    failed = {test if "[" in each.test else test.partition("[")[0] for test in outcome.failed}  # ranks say it, too
    assert outcome.status < 0 or failed == {each.test}


def test_a_compiler_that_is_not_wrong_passes(changed: Overlay) -> None:
    each = next(each for each in every() if each.what == QUICK[0])
    harmless = Mutation(each.what, each.file, each.old, f"{each.old}  # as before", each.test)
    assert changed.outcome(harmless).status == 0


@pytest.mark.parametrize("part", PARTS)
def test_every_mutation_changes_its_file(part: str) -> None:
    for each in mutations(part):
        assert each.old != each.new
        assert each.applied()


def test_each_mutation_is_another_one() -> None:
    listed = every()
    assert len({each.what for each in listed}) == len(listed) >= 60
    assert Counter((each.file, each.old, each.new) for each in listed).most_common(1)[0][1] == 1


def test_a_text_that_is_not_there_once_is_said() -> None:
    gone = Mutation("nothing", "proof/memory/races.py", "no such text", "", "proof/memory/test_races.py")
    with pytest.raises(NotOnceError, match=r"'no such text' is 0 times in proof/memory/races\.py, not once"):
        gone.applied()


def test_the_test_of_each_mutation_exists(root: Path) -> None:
    for each in every():
        file, _, name = each.test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (root / "tests" / file).read_text(), each.what


def test_the_page_lists_all_mutations() -> None:
    found = PAGE.read_text()
    day = next(line for line in found.splitlines() if line.startswith("On ")).split()[1].removesuffix(",")
    assert found == text(set(every()), date.fromisoformat(day))
