"""What a user may get wrong: each is refused with a name, before anything is measured."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.tuning.learned.pretended import RANGES, SPACE, law, make, product
from tiramisu_py.tuning import filters

N, M = tm.params("N M")
i, j = tm.iters("i j")


class Thing:
    """A value whose text differs from process to process."""


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({}, "space={}"),
        ({**SPACE, "lanes": []}, "lanes has no values"),
        ({**SPACE, "lanez": [1]}, "make does not take .*lanez"),
        ({**SPACE, "loop": ["i", lambda: 0]}, "loop has .*which has no order and no name"),
        ({**SPACE, "loop": [Thing()]}, "loop has .*Thing object.*no order and no name"),
        ({**SPACE, "loop": ["None", None]}, "loop has 'None' and None, which are both named None"),
        ({**SPACE, "lanes": [2, 2]}, "lanes has 2 twice"),
    ],
)
def test_a_space_that_is_none_is_refused(space: dict[str, Any], words: str) -> None:
    with pytest.raises(tm.ArgumentError, match=words):
        tm.input_aware(make, space)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"timer": 3}, "timer=3: give a function"),
        ({"filters": 3}, "filters=3: give a list"),
        ({"filters": [law]}, "filters has .*law"),
        ({"filters": [filters.only_powers_of_two("rows")]}, "filter powers of two reads rows, and the space has lanes"),
        ({"default": {"lanes": 2}}, "default=.*give a value of each parameter, lanes, loop"),
        ({"default": {"lanes": 5, "loop": "i"}}, "default has lanes=5, which the space does not have"),
        ({"thread": 3}, "input_aware has no option thread="),
        ({"where": lambda rows: rows}, "where does not take the parameters"),
    ],
)
def test_what_is_no_argument_of_a_kernel_is_refused(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(tm.ArgumentError, match=words):
        product(tmp_path, **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**RANGES}, "collect: give a limit"),
        ({"N": 3, "M": 3, "samples": 3}, "collect lacks the size K"),
        ({**RANGES, "L": 3, "samples": 3}, "collect has no size L: the sizes are N, M, K"),
        ({**RANGES, "N": 0, "samples": 3}, "N=0: sizes are at least 1"),
        ({**RANGES, "N": (9, 3), "samples": 3}, r"N=\(9, 3\): sizes are at least 1, and the least one comes first"),
        ({**RANGES, "N": (1, 2.5), "samples": 3}, r"N=\(1, 2.5\): give the least and the largest"),
        ({**RANGES, "samples": 0}, "samples=0: give an integer of at least 1"),
        ({**RANGES, "minutes": -1}, "minutes=-1: give the time limit in minutes"),
        ({**RANGES, "samples": 3, "seed": -1}, "seed=-1"),
    ],
)
def test_ranges_that_do_not_fit_are_refused(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(tm.ArgumentError, match=words):
        product(tmp_path).collect(**given)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.best(N=3, M=4), "best lacks the size K"),
        (lambda p: p.best(N=3, M=4, K=0), "K=0: a size is an integer of at least 1"),
        (lambda p: p.best(N=3, M=4, K=1.5), "K=1.5: a size is an integer"),
        (lambda p: p.best(N=3, M=4, K=1, top=0), "top=0"),
        (lambda p: p.chosen(N=3, M=4, K=1), "product keeps no point for N=3, M=4, K=1: call it"),
        (lambda p: p.fit(), r"product has no samples on this machine, and a model needs 30 .*collect\("),
        (lambda p: p.fit(hidden=(0,)), "hidden=0"),
        (lambda p: p(np.zeros((3, 4), np.int32)), "b is missing: product takes a, b"),
        (lambda p: p(np.zeros((3, 4), np.int32), np.zeros((5, 4), np.int32)), "b"),
        (lambda p: p(*[np.zeros((3, 3), np.int32)] * 3), "product takes 2 inputs"),
        (lambda p: p(*[np.zeros((3, 3), np.int32)] * 2, measure=-1), "measure=-1"),
    ],
)
def test_sizes_and_arrays_that_do_not_fit_are_refused(
    tmp_path: Path, call: Callable[[tm.InputAware], object], words: str
) -> None:
    with pytest.raises(tm.ArgumentError, match=words):
        call(product(tmp_path))


def test_a_space_of_races_says_how_many_and_gives_one(tmp_path: Path) -> None:
    refused = product(tmp_path, space={"lanes": [2, 3, 4], "loop": ["k"]})
    with pytest.raises(
        tm.ArgumentError, match="no legal point among 3: 2 by the proof: race, 1 by a command, such as lanes"
    ):
        refused.collect(**RANGES, samples=5)
    excluded = product(tmp_path, where=lambda lanes, loop: False)
    with pytest.raises(tm.ArgumentError, match="no point of the space is allowed: where= excludes all of them"):
        excluded.collect(**RANGES, samples=5)
    with pytest.raises(tm.ArgumentError, match="default: lanes=2, loop='k' is not legal: two executions"):
        product(tmp_path, default={"lanes": 2, "loop": "k"}).best(N=1, M=1, K=1)


def test_points_of_other_functions_are_refused(tmp_path: Path) -> None:
    def various(lanes: int, loop: str) -> tm.Function:
        f = tm.Function("product", params=[N, M])
        a = f.input("a", tm.float32 if lanes < 4 else tm.float64, [N, M])
        f.outputs(f.computation("c", {i: N, j: M}, a[i, j] + 1))
        return f

    with pytest.raises(
        tm.ArgumentError, match=r"functions of lanes=2, loop='i' and of lanes=., loop='.' differ in their inputs"
    ):
        product(tmp_path, make=various).collect(N=3, M=3, samples=20)
    with pytest.raises(tm.ArgumentError, match=r"make\(lanes=2, loop='i'\) returned 3"):
        product(tmp_path, make=lambda lanes, loop: 3).collect(N=3, M=3, samples=20)


def test_a_function_without_sizes_is_referred_to_tune(tmp_path: Path) -> None:
    def fixed(lanes: int, loop: str) -> tm.Function:
        f = tm.Function("fixed")
        a = f.input("a", tm.float32, [8])
        f.outputs(f.computation("c", {i: 8}, a[i] + lanes - lanes))
        return f

    with pytest.raises(tm.ArgumentError, match=r"fixed has no sizes: tm\.tune finds"):
        product(tmp_path, make=fixed, space={"lanes": [1], "loop": ["i"]}).collect(samples=3)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), "1", None, True])
def test_a_timer_that_returns_no_seconds_is_refused(tmp_path: Path, seconds: Any) -> None:
    with pytest.raises(tm.ArgumentError, match=r"timer returned .* for lanes="):
        product(tmp_path, timer=lambda point, sizes: seconds).collect(**RANGES, samples=2)


@pytest.mark.parametrize("given", [3, {}, {"density": "high"}, {"density": float("nan")}, {"density": -1}])
def test_features_that_are_no_numbers_are_refused(tmp_path: Path, given: Any) -> None:
    made = product(tmp_path, features=lambda N, M, K: given)
    made.collect(**RANGES, samples=40)
    with pytest.raises(tm.ArgumentError, match="features"):
        made.fit()


def test_databases_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    made = product(tmp_path)
    with pytest.raises(tm.TuningError, match=r"there is no database .*other\.sqlite: give the file"):
        made.merge(tmp_path / "other.sqlite")
    with sqlite3.connect(tmp_path / "letters.sqlite") as connection:
        connection.execute("CREATE TABLE letters (text)")
    with pytest.raises(tm.TuningError, match="a database of another program"):
        made.merge(tmp_path / "letters.sqlite")
    (tmp_path / "samples.sqlite").write_bytes(b"no database, " * 400)
    with pytest.raises(tm.TuningError, match=r"samples\.sqlite is damaged, or no SQLite database"):
        made.collect(**RANGES, samples=3)


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    made = product(tmp_path)
    made.collect(**RANGES, samples=64)
    with made._study.opened() as store:
        store._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(tm.TuningError, match=r"samples\.sqlite cannot be used: database or disk is full"):
            store.keep_model("x" * 10_000, "", b"x" * 100_000, "")
