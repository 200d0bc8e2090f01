"""Fitting: errors of shapes that were kept apart, the same model for the same samples, kept as plain arrays."""

from __future__ import annotations

import logging
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.tuning.learned.pretended import LEGAL, RANGES, SMALL, law, make, product
from tiramisu_py.tuning.learned.columns import columns_for, value_name
from tiramisu_py.tuning.learned.fitting import Fitted, kept_apart
from tiramisu_py.tuning.learned.predicting import observations
from tiramisu_py.tuning.learned.samples.ranges import written
from tiramisu_py.tuning.learned.workload_size import AlgorithmWork
from tiramisu_py.tuning.search.space import Space


@pytest.fixture
def collected(tmp_path: Path) -> tm.InputAware:
    made = product(tmp_path)
    made.collect(**RANGES, samples=300)
    return made


def test_a_model_chooses_what_the_law_says(collected: tm.InputAware) -> None:
    report = collected.fit(hidden=(24, 24), epochs=30)
    assert (report.samples, report.points) == (300, 3) and report.error == min(report.errors.values())
    assert report.error < report.errors["linear"] and report.error < report.error_without_logarithms
    assert "loop='k' has no samples" in report.unknown and "lanes=3 has no samples" in report.unknown
    shares = []
    for n, m, k in np.random.default_rng(0).integers(4, 64, (30, 3)):
        sizes = {"N": int(n), "M": int(m), "K": int(k)}
        found = collected.best(**sizes, top=3)
        assert [each.parameters in LEGAL for each in found] == [True] * 3
        seconds = [each.seconds for each in found if each.seconds is not None]
        assert seconds == sorted(seconds) and len(seconds) == 3
        shares.append(min(law(point, sizes) for point in LEGAL) / law(found[0].parameters, sizes))
    assert np.mean(shares) > 0.97 and min(shares) > 0.7


def test_the_model_that_is_kept_has_seen_the_shapes_that_were_apart(collected: tm.InputAware) -> None:
    report = collected.fit(hidden=(24, 24), epochs=30)
    study, kept = collected._study, collected._predictor._fitted
    with study.opened() as store:
        given = observations(study, store, most=None, prior=False, seed=0)
    columns = study.columns(given.shapes[0])
    held = kept_apart([written(sizes) for sizes in given.shapes], len(given.shapes), 0)
    amounts = np.array([columns.amount(sizes) for sizes in given.shapes])
    predicted = kept.model.predicted(columns.rows(given.points, given.shapes))  # type: ignore[union-attr]
    differences = np.log(amounts / np.exp2(predicted) / given.seconds)[held]
    assert 0.15 < held.mean() < 0.25
    assert np.sqrt(np.mean(differences**2)) < 0.9 * report.error


def test_a_report_says_in_words_what_was_learned(collected: tm.InputAware) -> None:
    text = str(collected.fit(**SMALL))
    assert "300 samples of 3 points" in text and "error on shapes kept apart" in text
    assert "known for N from 4 to 64, M from 4 to 256, K from 4 to 64" in text.replace(
        "K from 4 to 64, M from 4 to 256, N from 4 to 64", "N from 4 to 64, M from 4 to 256, K from 4 to 64"
    )
    assert str(collected.best(N=8, M=8, K=8)).count("predicted") == 3


def test_shapes_with_several_points_tell_how_good_the_choice_is(tmp_path: Path) -> None:
    wide = {"lanes": [1, 2, 4, 8, 16, 32], "loop": ["i"]}
    made = product(tmp_path, space=wide)
    made.collect(**RANGES, samples=180, shapes=40)
    report = made.fit(**SMALL)
    assert report.shapes == 40 and report.chosen is not None
    assert 0 < report.chosen[0] <= report.chosen[1] == 1


def test_the_same_samples_and_seed_are_the_same_model(collected: tm.InputAware, tmp_path: Path) -> None:
    one = collected.fit(**SMALL, seed=5)
    other = product(tmp_path)
    assert other.fit(**SMALL, seed=5) == one
    assert [each.seconds for each in other.best(N=9, M=9, K=9)] == [
        each.seconds for each in collected.best(N=9, M=9, K=9)
    ]
    assert other.fit(**SMALL, seed=6) != one
    assert collected.fit(**SMALL, most=100).samples == 100


def test_a_model_is_read_again_and_a_damaged_one_is_fitted_anew(
    collected: tm.InputAware, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = collected.fit(**SMALL)
    assert product(tmp_path).report == report
    with sqlite3.connect(tmp_path / "samples.sqlite") as connection:
        ((arrays,),) = connection.execute("SELECT arrays FROM models").fetchall()
        assert b"pickle" not in arrays
        connection.execute("UPDATE models SET arrays = ?", (arrays[:-9] + b"\x00" * 9,))
    with caplog.at_level(logging.WARNING):
        again = product(tmp_path).report
    assert again is not None and again.samples == 300 and "damaged, and is fitted anew" in caplog.text
    caplog.clear()
    assert product(tmp_path).report == again and "damaged" not in caplog.text


def test_a_packed_model_with_another_checksum_is_none(collected: tm.InputAware) -> None:
    collected.fit(**SMALL)
    packed = collected._predictor._fitted.packed()  # type: ignore[union-attr]
    again = Fitted.unpacked(*packed)
    assert again is not None and again.report == collected.report
    assert Fitted.unpacked(packed[0].replace("network", "roofline"), *packed[1:]) is None


def test_a_text_that_is_no_longer_emitted_counts_for_nothing(collected: tm.InputAware, tmp_path: Path) -> None:
    def changed(lanes: int, loop: str) -> tm.Function:
        f = make(lanes, loop)
        if lanes == 8:
            f["c"].init.parallelize(tm.iters("i")[0])
        return f

    lacking = product(tmp_path, make=changed).fit(**SMALL)
    assert 0 < lacking.samples < 300 and "lanes=8 has no samples" in lacking.unknown


def test_rows_are_the_same_one_by_one_and_for_all_points_at_once() -> None:
    def features(N: int, lanes: int, **_: Any) -> dict[str, float]:
        return {"waves": N / lanes}

    space = Space({"lanes": (2, 4, 8), "loop": ("i", "k")})
    work = AlgorithmWork(make(2, "i").algorithm)
    sizes = {"N": 5, "M": 19, "K": 3}
    columns = columns_for(space, ("N", "M", "K"), features, work, sizes)
    points = list(space.points())
    rows = columns.rows(points, [sizes] * len(points))
    assert np.allclose(rows, columns.at(columns.encoded(points), points, sizes))
    assert columns.of_point == 3 and rows.shape == (6, 3 + 3 + 3 + 1 + 2)
    first = [1, 1, 0, *np.log2([3, 10, 2]), *np.log2([5, 19, 3]), np.log2(5 / 2), *np.log2([2 * 5 * 19 * 3, 668])]
    assert np.allclose(rows[0], first)
    raw = columns.rows(points, [sizes] * len(points), logarithms=False)
    assert list(raw[0, :6]) == [2, 1, 0, 3, 10, 2]


def test_work_is_that_of_exact_counts() -> None:
    work = AlgorithmWork(make(2, "i").algorithm)
    for n, m, k in ((1, 1, 1), (5, 19, 3), (400, 200, 100)):
        sizes = {"N": n, "M": m, "K": k}
        assert work.operations(sizes) == 2 * n * m * k
        assert work.bytes(sizes) == 4 * (n * m + n * k + k * m)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("rows", "rows"),
        (True, "True"),
        (None, "None"),
        (tm.PRIVATE, "Combine.PRIVATE"),
        ((1, "a"), "(1, a)"),
        (law, "law"),
    ],
)
def test_values_without_an_order_have_names(value: object, name: str) -> None:
    assert value_name(value) == name


def test_beyond_the_samples_one_warning_says_how_to_widen_them(collected: tm.InputAware) -> None:
    collected.fit(**SMALL)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = collected.best(N=9, M=9000, K=2)
    (one,) = said
    assert "M = 9000 is not in 4 to 256" in str(one.message) and "K = 2" in str(one.message)
    assert "collect()" in str(one.message) and one.filename == __file__
    assert len(found) == 1 and found[0].seconds is None and found[0].parameters in LEGAL


def test_without_a_model_the_default_runs_and_a_warning_says_how_to_get_one(tmp_path: Path) -> None:
    for default, expected in ((None, LEGAL[0]), (LEGAL[1], LEGAL[1])):
        made = product(tmp_path, default=default)
        with pytest.warns(UserWarning, match=r"no model: measure some with collect\(N=\(16, 4096\)") as said:
            found = made.best(N=9, M=9, K=9)
        assert len(said) == 1
        assert [each.parameters for each in found] == [expected]


def test_ranges_that_no_sample_has_reached_are_not_known(tmp_path: Path) -> None:
    made = product(tmp_path)
    made.collect(**RANGES, samples=100)
    made.collect({**RANGES, "M": (4, 10**6)}, samples=10, minutes=1e-9)  # ends at once
    known = made.fit(**SMALL).ranges
    assert known["N"] == RANGES["N"] and 256 <= known["M"][1] <= 512


@pytest.mark.slow
def test_a_space_that_is_too_large_to_list_is_predicted_where_it_is_sampled(tmp_path: Path) -> None:
    def wide(lanes: int, loop: str, a: int, b: int, c: int) -> tm.Function:
        return make(lanes, loop)

    space = {"lanes": [2, 4, 8], "loop": ["i"], **dict.fromkeys("abc", range(1, 41))}
    made = product(tmp_path, make=wide, space=space)
    made.collect(**RANGES, samples=100, points=30)
    made.fit(hidden=(16,), epochs=20)
    found = made.best(N=9, M=64, K=9, top=5)
    assert len({tuple(each.parameters.values()) for each in found}) == 5
    assert [each.parameters["lanes"] for each in found] == [8] * 5
