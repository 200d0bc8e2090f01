"""Random programs whose choices Hypothesis makes: what fails becomes smaller, and is tried again first.

The generators are those of ``scripts/fuzz``. A number makes a program there, so that a run of hours goes on where it
ended, and lines are taken away from what it finds; here each choice can be made smaller, sizes of tiles and expressions
too. What has failed is in Hypothesis' own database of examples.
"""

from __future__ import annotations

import random
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, find, given, seed, settings
from hypothesis import strategies as st
from hypothesis.database import InMemoryExampleDatabase

from tests.oracle.generators.script import Drawing, Script
from tests.oracle.kinds import KINDS, Drawn
from tests.oracle.seeds import TIMES, first_of

#: Kinds of programs, and how many are tried. Those for GPUs are slow, and left to ``scripts/fuzz``.
EXAMPLES = {
    "whole": 12,
    "sums": 12,
    "any": 8,
    "cores": 8,
    "lanes": 8,
    "groups": 8,
    "facts": 5,
    "runs": 3,
    "stages": 5,
    "patterns": 3,
}
DRIVEN = settings(deadline=None, suppress_health_check=list(HealthCheck))
CHOICES = st.randoms(use_true_random=False).map(Drawing)


def wrong(kind: str, script: Script) -> str:
    """What is wrong with a program: the proof beside the judge, and the loops of what is proven."""
    script.check()
    if script.slowest.too_long:
        return script.slowest.too_long
    found = KINDS[kind].compared(script, 0)
    if found.kind in KINDS[kind].wrong:
        return f"{found.kind}: {found.text}"
    if found.kind == "accepted" and KINDS[kind].runs(script):
        return KINDS[kind].wrong_loops(Drawn(0, script))
    return ""


@pytest.mark.parametrize("kind", EXAMPLES)
def test_judges_agree_whatever_is_chosen(kind: str) -> None:
    @seed(first_of(60))
    @settings(DRIVEN, max_examples=EXAMPLES[kind] * TIMES)
    @given(CHOICES)
    def agree(choice: random.Random) -> None:
        script = KINDS[kind].made(choice)
        said = wrong(kind, script)
        assert not said, f"{said}\n{script.text}"

    agree()


def test_nothing_is_drawn_where_there_is_nothing_to_choose_from() -> None:
    """Else the next choice of a program is taken for it, in some runs of it and not in others."""

    @seed(first_of(60))
    @settings(DRIVEN, max_examples=50, database=None)
    @given(CHOICES)
    def drawn(choice: random.Random) -> None:
        count = choice.randrange(3)
        for draw in (lambda: choice.choice([0] * count), lambda: choice.randint(1, count)):
            with pytest.raises((IndexError, ValueError)) if not count else nullcontext():
                draw()
        loops = list(range(count))
        choice.shuffle(loops)
        assert sorted(loops) == list(range(count)) and choice.choice("ab") in "ab" and 0 <= choice.random() < 1
        assert len(choice.sample(range(5), 2)) == 2

    drawn()


def test_what_fails_becomes_small() -> None:
    """A program with two reductions: others that were found have more lines, or longer ones."""
    found: list[str] = []

    def fails(script: Script) -> bool:
        if "s1 = " in script.text:
            found.append(script.text)
        return "s1 = " in script.text

    made = CHOICES.map(lambda choice: KINDS["sums"].made(choice))
    smallest = find(made, fails, settings=settings(DRIVEN, database=None), random=random.Random(1))
    assert len(smallest.text) < len(found[0])
    assert len(smallest.lines) - smallest.declarations <= 1


def test_what_failed_is_tried_again_first() -> None:
    database, tried = InMemoryExampleDatabase(), list[str]()

    @seed(first_of(60))
    @settings(DRIVEN, max_examples=200, database=database)
    @given(CHOICES)
    def agree(choice: random.Random) -> None:
        tried.append(KINDS["sums"].made(choice).text)
        assert ".split(" not in tried[-1]

    with pytest.raises(AssertionError):
        agree()
    smallest, tried[:] = min((text for text in tried if ".split(" in text), key=len), []
    with pytest.raises(AssertionError):
        agree()
    assert tried[0] == smallest
