"""Collecting: what is known is not measured again, whatever ended the last call; one file for all machines."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm
from tests.tuning.learned.pretended import LEGAL, RANGES, SMALL, law, product
from tiramisu_py.tuning import filters
from tiramisu_py.tuning.learned.samples import clocks
from tiramisu_py.tuning.learned.samples.clocks import settled
from tiramisu_py.tuning.search.database import _SECOND, VERSION, Database


def forbidden(*_: Any, **__: Any) -> None:
    raise AssertionError("nothing is emitted with a timer")


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as connection:
        return connection.execute(query).fetchall()


def test_collecting_keeps_legal_samples_and_counts_why_others_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "emission", forbidden)
    found = product(tmp_path).collect(**RANGES, samples=150, seed=0)
    assert (found.samples, found.new, found.points, found.compiled, found.complete) == (150, 150, 3, 0, True)
    assert found.rejected == {"a command": 2, "the proof: race": 3}
    assert "two executions" in found.examples["the proof: race"] and "3 refused by the proof: race" in str(found)
    for sizes, parameters, seconds in rows(
        tmp_path / "samples.sqlite", "SELECT sizes, parameters, seconds FROM timings JOIN kernels ON id = kernel"
    ):
        point, at = eval(parameters), eval(sizes)
        assert point in LEGAL and seconds == law(point, at)
        assert all(low <= at[name] <= high for name, (low, high) in RANGES.items())


def test_a_collection_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    asked = []

    def dying(point: Mapping[str, Any], sizes: Mapping[str, int]) -> float:
        asked.append((dict(point), dict(sizes)))
        if len(asked) == 100:
            raise KeyboardInterrupt
        return law(point, sizes)

    with pytest.raises(KeyboardInterrupt):
        product(tmp_path, timer=dying).collect(**RANGES, samples=150)
    kept = rows(tmp_path / "samples.sqlite", "SELECT count(*) FROM timings")[0][0]
    assert kept == 64  # the first lot
    assert product(tmp_path, timer=dying).fit(**SMALL).ranges == RANGES
    assert product(tmp_path, timer=dying).report is not None
    found = product(tmp_path, timer=dying).collect(**RANGES, samples=150)
    assert (found.samples, found.new) == (150, 150 - kept)
    assert product(tmp_path, timer=dying).collect(**RANGES, samples=150).new == 0
    assert product(tmp_path, timer=dying).collect(**RANGES, samples=170).new == 20


def test_what_another_machine_measured_is_not_this_machines(tmp_path: Path) -> None:
    def other(point: Mapping[str, Any], sizes: Mapping[str, int]) -> float:
        return 3 * law(point, sizes)

    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    product(one, timer=other).collect(**RANGES, samples=100)
    here = product(two)
    here.collect(**RANGES, samples=60)
    assert here.merge(one / "samples.sqlite") == 100
    assert here.merge(one / "samples.sqlite") == 0
    assert here.fit(**SMALL).samples == 60
    mixed = here.fit(**SMALL, prior=True)
    assert mixed.samples == 160 and "100 samples are of other machines" in mixed.unknown
    again = product(two, timer=other)
    assert again.collect(**RANGES, samples=100).new == 0


def test_only_asked_for_are_the_samples_of_another_machine_a_model(tmp_path: Path) -> None:
    def other(point: Mapping[str, Any], sizes: Mapping[str, int]) -> float:
        return law(point, sizes)

    product(tmp_path, timer=other).collect(**RANGES, samples=100)
    here = product(tmp_path)
    with pytest.raises(tm.ArgumentError, match=r"no samples on this machine.*collect\(.*fit\(prior=True\) takes"):
        here.fit()
    assert here.fit(prior=True, **SMALL).samples == 100


def test_a_file_of_version_1_is_taken_over_with_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "samples.sqlite"
    Database(path, "machine", "compiler", "workload").close()
    with sqlite3.connect(path) as connection:
        for table in ("timings", "kernels", "texts", "ranges", "models", "choices"):
            assert f"CREATE TABLE {table}" in _SECOND
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")
    assert product(tmp_path).collect(**RANGES, samples=10).new == 10
    assert rows(path, "PRAGMA user_version") == [(VERSION,)]
    assert len(rows(path, "SELECT * FROM contexts")) == 2


def test_filters_limit_what_is_sampled(tmp_path: Path) -> None:
    wide = filters.limit("wide vectors", lambda lanes, **_: -lanes, most=-4)
    found = product(tmp_path, filters=[wide]).collect(**RANGES, samples=30, points=1, shapes=40, operations=20_000)
    assert found.points == 1 and found.rejected["wide vectors"] == 4 and found.rejected["operations"] > 0
    assert found.samples == 30
    assert all(
        eval(each)["lanes"] >= 4 for (each,) in rows(tmp_path / "samples.sqlite", "SELECT parameters FROM kernels")
    )


def test_time_ends_a_collection(tmp_path: Path) -> None:
    found = product(tmp_path).collect(**RANGES, samples=10_000, minutes=1e-9)
    assert found.samples == 0 and not found.complete


def test_sizes_are_those_that_the_function_assumes(tmp_path: Path) -> None:
    def squares(lanes: int, loop: str) -> tm.Function:
        n, m = tm.params("n m")
        i, j = tm.iters("i j")
        f = tm.Function("squares", params=[n, m], assume="n % 4 = 0 and m >= n")
        a = f.input("a", tm.float32, [n, m])
        f.outputs(f.computation("c", {i: n, j: m}, a[i, j] * a[i, j]))
        return f

    found = product(tmp_path, make=squares, timer=lambda point, sizes: 1.0).collect(n=(1, 64), m=(1, 64), samples=40)
    assert found.rejected["what the function assumes"] > 40 and found.samples == 40
    taken = [eval(each) for (each,) in rows(tmp_path / "samples.sqlite", "SELECT sizes FROM timings")]
    assert all(sizes["n"] % 4 == 0 and sizes["m"] >= sizes["n"] for sizes in taken)


@pytest.mark.parametrize(
    ("samples", "enough"),
    [
        ([1.0, 1.0], False),  # too few
        ([1.0, 1.05, 1.1], True),
        ([1.0, 1.05, 9.0], False),  # the third is apart
        ([14.0, 15.0, 23.0, 0.02, 19.0, 0.02], False),  # of microseconds, on two threads: the machine was disturbed
        ([14.0, 15.0, 23.0, 0.02, 19.0, 0.02, 0.021], True),
        ([2.0**k for k in range(11)], False),
        ([2.0**k for k in range(12)], True),  # it will not settle
    ],
)
def test_a_time_is_taken_until_the_three_least_samples_agree(samples: list[float], enough: bool) -> None:
    assert settled(samples, 3) == enough
