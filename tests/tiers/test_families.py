"""A plain run makes some cases of each family, every case has its turn, and what mutations name is always there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.mutations.lists import every
from tests.tiers.budget import budget
from tests.tiers.families import ROUNDS, TURNS, VARIABLE, chosen, this_turn

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Case:
    """A test as far as a selection asks for it."""

    nodeid: str
    is_slow: bool = False

    @property
    def path(self) -> Path:
        return ROOT / self.nodeid.partition("::")[0].removeprefix("tests/")

    def get_closest_marker(self, name: str) -> object:
        return self.is_slow and name == "slow"


def cases(name: str, count: int, slow: int = 0) -> list[pytest.Item]:
    """The cases of a family, the slow ones last."""
    return [cast(pytest.Item, Case(f"tests/{name}[{k}]", k >= count - slow)) for k in range(count)]


@pytest.mark.parametrize("count", [1, 2, 7, 40])
@pytest.mark.parametrize("each", [1, 3, 40])
def test_a_family_has_as_many_cases_as_the_budget_says_and_others_in_the_next_turn(count: int, each: int) -> None:
    family, tried = cases("a.py::test_it", count), set[str]()
    for turn in range(-(-count // each)):
        now = chosen(family, turn, {"a.py::test_it": each}, ())
        assert 1 <= len(now) <= max(each, count // TURNS)
        tried |= {item.nodeid for item in now}
    assert len(tried) == count


def test_no_family_has_more_cases_than_a_run_asks_for() -> None:
    items = [*cases("a.py::test_it", 9), *cases("b.py::test_it", 9), *cases("c.py::test_it", 1)]
    now = chosen(items, 3, {"a.py::test_it": 1}, (), most=2)
    assert [sum(item.nodeid.startswith(f"tests/{name}") for item in now) for name in "abc"] == [1, 2, 1]


@pytest.mark.parametrize(("count", "each"), [(5, 5), (40, 6), (600, 15)])
def test_a_family_without_a_number_has_the_usual_one_or_what_its_turns_need(count: int, each: int) -> None:
    family, tried = cases("a.py::test_it", count), set[str]()
    for turn in range(TURNS):
        now = chosen(family, turn, {}, (), usual=6)
        assert len(now) in (each - 1, each)
        tried |= {item.nodeid for item in now}
    assert len(tried) == count


def test_slow_cases_have_one_turn_each_and_all_others_every_turn() -> None:
    family = cases("a.py::test_it", 50, slow=47)
    turns = [[item.nodeid for item in chosen(family, turn, {}, ())] for turn in range(TURNS)]
    assert all(names[:3] == [f"tests/a.py::test_it[{k}]" for k in range(3)] for names in turns)
    assert sorted(name for names in turns for name in names[3:]) == sorted(item.nodeid for item in family[3:])
    assert {len(names) for names in turns} == {4, 5}


@pytest.mark.parametrize("count", [1, 30])
def test_a_family_of_no_cases_has_one_turn_for_each(count: int) -> None:
    family = cases("a.py::test_it", count)
    runs = [item.nodeid for turn in range(TURNS) for item in chosen(family, turn, {"a.py::test_it": 0}, ())]
    assert sorted(runs) == sorted(item.nodeid for item in family)


def test_what_is_always_run_is_in_every_turn() -> None:
    family = [*cases("a.py::test_it", 9, slow=4), *cases("b.py::test_it", 3)]
    always = {"a.py::test_it[3]", "a.py::test_it[7]", "b.py::test_it"}
    for turn in range(TURNS):
        names = {item.nodeid for item in chosen(family, turn, {"a.py::test_it": 1, "b.py::test_it": 1}, always)}
        assert {"tests/a.py::test_it[3]", "tests/a.py::test_it[7]"} <= names
        assert {f"tests/b.py::test_it[{k}]" for k in range(3)} <= names


def test_the_order_of_tests_is_kept() -> None:
    items = [*cases("b.py::test_it", 30, slow=20), *cases("a.py::test_it", 8)]
    now = chosen(items, 3, {"a.py::test_it": 2}, ())
    assert now == sorted(now, key=items.index)


def test_a_commit_has_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    found = this_turn()
    assert 0 <= found < TURNS * ROUNDS
    assert os.environ[VARIABLE] == str(found)  # for workers
    monkeypatch.setenv(VARIABLE, str(found + TURNS * ROUNDS + 1))
    assert this_turn() == (found + 1) % (TURNS * ROUNDS)


@pytest.mark.slow
def test_the_budget_names_families_that_there_are() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--all", "tests"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    counts = Counter(name.removeprefix("tests/").partition("[")[0] for name in said if "::" in name)
    for name, each in budget().cases.items():
        assert each <= counts[name], name  # all of them, where more than the usual number


def test_this_run_has_the_test_of_every_mutation(request: pytest.FixtureRequest) -> None:
    """Of those whose files it has, but for the MPI that runs it."""
    names = {item.nodeid.removeprefix("tests/") for item in request.session.items}
    there = names | {name.partition("[")[0] for name in names}
    files = {name.partition("::")[0] for name in names}
    wanted = [each.test.removesuffix("[mpich]") for each in every() if each.test.partition("::")[0] in files]
    selected = request.config.option.keyword or any("::" in given for given in request.config.args)
    assert selected or [test for test in wanted if test not in there] == []


@pytest.mark.parametrize(
    ("arguments", "all_cases", "run"),
    [([], False, [True, False]), ([], True, [True, True]), (["test_two.py::test_it"], False, [True, True])],
)
def test_a_run_leaves_cases_to_other_turns_unless_it_is_asked_for_all(
    arguments: list[str], all_cases: bool, run: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """By the hook of the tests' own conftest: in some turn, the slow case of two is not run."""
    given = cases("test_two.py::test_it", 2, slow=1)
    asked = SimpleNamespace(
        args=arguments,
        option=SimpleNamespace(markexpr=""),
        getoption={"--all": all_cases, "--cases": None}.get,
        hook=SimpleNamespace(pytest_deselected=lambda items: None),
        invocation_params=SimpleNamespace(dir=ROOT),
    )
    turns = []
    for turn in ("0", "1"):
        monkeypatch.setenv(VARIABLE, turn)
        left = [*given]
        pytest_collection_modifyitems(cast(pytest.Config, asked), left)
        turns.append([item in left for item in given])
    assert run in turns
