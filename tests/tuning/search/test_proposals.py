"""Spaces, and the ways to choose points of them: each point once, in an order that the seed fixes."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from typing import Any

import pytest

import tiramisu_py as tm
from tests.tuning.search.laboratory import Laboratory
from tiramisu_py.tuning.search.proposals import Drawn, EveryPoint, Explorer, Guided, Proposals, proposals_for
from tiramisu_py.tuning.search.space import Space, checked_space

SMALL = Space({"a": (1, 2, 3), "b": ("x", "y"), "c": (True, 1)}, lambda a, b, c: (a, b) != (2, "y"))
LARGE = Space({name: tuple(range(32)) for name in "abcdef"})

needs_optuna = pytest.mark.skipif(
    importlib.util.find_spec("optuna") is None, reason="no Optuna here: pip install 'tiramisu_py[tune]'"
)


def taken(proposals: Proposals, cost: Any = lambda point: 1.0, count: int = 3, most: int = 1000) -> list[Any]:
    found: list[Any] = []
    while len(found) < most and (lot := proposals.take(count)):
        found += lot
        for point in lot:
            proposals.tell(point, cost(point))
    return found


def test_a_space_is_numbered() -> None:
    assert (SMALL.size, len(list(SMALL.points()))) == (12, 10)
    every = [SMALL.numbered(number) for number in range(12)]
    assert [SMALL.number(point) for point in every] == list(range(12))
    assert every[0] == {"a": 1, "b": "x", "c": True}
    assert [point for point in every if SMALL.allows(point)] == list(SMALL.points())
    assert all(type(SMALL.at(SMALL.indices(point))["c"]) is type(point["c"]) for point in every)


@pytest.mark.parametrize("kind", [EveryPoint, Drawn, pytest.param(Guided, marks=needs_optuna)])
def test_every_allowed_point_is_proposed_once(kind: Any) -> None:
    found = [SMALL.number(point) for point in taken(kind(SMALL, 3))]
    assert len(found) == len(set(found)) == 10
    assert set(found) == {SMALL.number(point) for point in SMALL.points()}


@pytest.mark.parametrize("kind", [EveryPoint, Drawn, pytest.param(Guided, marks=needs_optuna)])
def test_the_seed_fixes_the_order(kind: Any) -> None:
    def cost(point: Any) -> float | None:
        return None if point["b"] == "y" else float(point["a"])

    orders = [[SMALL.number(point) for point in taken(kind(SMALL, seed), cost)] for seed in (1, 1, 2, 3)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2] or orders[0] != orders[3]


@needs_optuna
def test_optuna_finds_a_better_point_than_chance() -> None:
    """A bowl with a third of the points refused: the mean of the best costs of five searches of 80 points."""

    def cost(point: Any) -> float | None:
        return None if point["a"] % 3 == 0 else float(sum((value - 20) ** 2 for value in point.values()))

    def best(kind: Any, seed: int) -> float:
        costs = [cost(point) for point in taken(kind(LARGE, seed), cost, count=2, most=80)]
        return min(found for found in costs if found is not None)

    guided, drawn = (sum(best(kind, seed) for seed in range(5)) for kind in (Guided, Drawn))
    assert guided < drawn


@needs_optuna
def test_optuna_says_nothing_and_keeps_its_own_level(caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    optuna = importlib.import_module("optuna")
    before = optuna.logging.get_verbosity()
    taken(Guided(SMALL, 0))
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr().err == ""


@needs_optuna
def test_a_large_space_is_searched_with_a_number_of_points(laboratory: Laboratory) -> None:
    space = {"lanes": [2, 3, 4, 8, 16], "loop": ["i", "k"]}
    result = laboratory.tune(space, points=2)
    assert (result.measured, result.complete) == (2, False)
    first = [point.parameters for point in result.points]
    laboratory.forget()
    more = laboratory.tune(space, points=3)  # begins as the first search did, and measures one point more
    assert [point.parameters for point in more.points][: len(first)] == first
    assert more.measured == 3
    assert len({str(point) for point in laboratory.measured} - {str(point) for point in first}) == 1


def test_without_optuna_the_error_says_what_to_install(laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"pip install 'tiramisu_py\[tune\]'; or give search='random'"):
        laboratory.tune(points=7)
    assert laboratory.tune(points=8).complete
    assert laboratory.tune(points=2, search="random").measured == 2


def test_the_way_to_search_follows_from_the_size() -> None:
    assert isinstance(proposals_for(SMALL, None, 10, 0), EveryPoint)
    assert isinstance(proposals_for(SMALL, "grid", 3, 0), EveryPoint)
    assert isinstance(proposals_for(LARGE, "random", 3, 0), Drawn)
    with pytest.raises(tm.ArgumentError, match="too many to try all"):
        proposals_for(LARGE, "grid", 3, 0)


def test_powers_of_two() -> None:
    assert tm.powers_of_two(1, 8) == [1, 2, 4, 8]
    assert tm.powers_of_two(3, 40) == [4, 8, 16, 32]
    for low, high in [(5, 7), (0, 4), (True, 4), (2, 4.0)]:
        with pytest.raises(tm.ArgumentError, match="powers_of_two"):
            tm.powers_of_two(low, high)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ({}, "give the values of each parameter"),
        ([1], "give the values of each parameter"),
        ({3: [1]}, "give the values of each parameter"),
        ({"a": []}, "a has no values"),
        ({"a": 5}, "a is 5"),
        ({"a": "xyz"}, "a is 'xyz'"),
        ({"a": [1, 2, 1]}, "a has 1 twice"),
    ],
)
def test_spaces_that_are_none_are_refused(space: Any, says: str) -> None:
    with pytest.raises(tm.ArgumentError) as raised:
        checked_space(space, None, lambda **parameters: None)
    assert says in str(raised.value)


def test_values_that_are_equal_but_of_other_types_are_two() -> None:
    assert checked_space({"a": [1, True]}, None, lambda a: None).size == 2
    assert checked_space({"a": range(3)}, None, lambda a: None).values == {"a": (0, 1, 2)}
    with pytest.raises(tm.ArgumentError, match="is no function"):
        checked_space({"a": [1]}, None, builtins.Ellipsis)


@needs_optuna
@pytest.mark.parametrize("seed", range(4))
def test_a_way_with_few_allowed_combinations_is_not_given_up(seed: int) -> None:
    """The best way is one of four, and allowed in few combinations: a model alone often gives it up."""
    space = Space(
        {"way": ("a", "b", "c", "d"), "size": tuple(range(12)), "keep": tuple(range(8)), "lanes": tuple(range(5))},
        lambda way, size, keep, lanes: way == "b" or keep == 0,
    )

    def cost(point: Any) -> float | None:
        if point["way"] == "d":
            return float(abs(point["size"] - 6) / 2 + abs(point["lanes"] - 2))
        return None if point["way"] == "b" and point["keep"] < point["size"] else 4.0 + point["size"] / 100

    costs = {str(point): cost(point) for point in taken(Guided(space, seed), cost, count=2, most=100)}
    assert min(found for found in costs.values() if found is not None) <= 1


def test_neighbours_of_the_best_point_and_rare_values_are_explored() -> None:
    space = Space({"way": ("x", "y", "z"), "rows": (1, 2, 4, 8)})
    explorer = Explorer(space, Drawn(space, 0), 0)
    assert explorer.near() is None, "nothing has been measured"
    explorer.tell({"way": "x", "rows": 4}, 1.0)
    explorer.tell({"way": "y", "rows": 4}, None)
    explorer.tell({"way": "y", "rows": 1}, 2.0)
    beside = [explorer.near() for _ in range(5)]
    assert {str(point) for point in beside} == {
        str({"way": way, "rows": rows}) for way, rows in [("y", 4), ("z", 4), ("x", 2), ("x", 8)]
    } | {"None"}
    rare = [explorer.rare() for _ in range(2)]
    assert rare[0] is not None and rare[0]["way"] == "z"
    assert rare[1] is not None and rare[1]["rows"] in (2, 8)
