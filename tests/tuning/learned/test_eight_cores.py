"""A product on eight pretended cores: the model chooses well for sizes that were kept from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from benchmarks.tuning import RANGES, SPACE, chosen, eight_cores, product


@pytest.mark.slow
def test_the_best_of_five_is_nearly_the_best_of_all_on_forty_shapes(tmp_path: Path) -> None:
    made = tm.input_aware(
        product, SPACE, where=lambda rows, lanes, **_: rows * lanes >= 32, timer=eight_cores,
        database=tmp_path / "samples.sqlite",
    )  # fmt: skip
    found = made.collect(**RANGES, samples=2000)
    assert (found.samples, found.points, found.rejected["the proof: race"]) == (2000, 30, 15)
    report = made.fit()
    assert report.error < 0.5 * report.error_without_logarithms
    (_, _), (mean, least), (ten, _) = chosen(made)
    assert mean >= 0.97 and least >= 0.85 and ten >= mean
    assert made.best(M=16, N=16, K=65536)[0].parameters["share"] == "terms"
    assert made.best(M=512, N=512, K=64)[0].parameters["share"] == "rows"
    a, b = np.ones((33, 700), np.float32), np.ones((700, 65), np.float32)
    np.testing.assert_array_equal(made(a, b, measure=2), a @ b)
    assert len(made.kernels) == 2
