"""Models beside laws that are known: what each can learn it does, and its arrays are the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tiramisu_py.tuning.learned.models.boosting import Boosting
from tiramisu_py.tuning.learned.models.linear import LinearModel, Roofline
from tiramisu_py.tuning.learned.models.network import Networks, train

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-3, 3, (400, 4))


def error(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> float:
    return float(np.sqrt(np.mean((found - expected) ** 2)))


def test_a_linear_law_is_found_by_least_squares() -> None:
    y = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 3
    model = LinearModel.fitted(X[:300], y[:300])
    assert error(model.predicted(X[300:]), y[300:]) < 1e-5


def test_a_network_learns_a_maximum_that_no_linear_model_has() -> None:
    y = np.maximum(X[:, 0] + X[:, 1], 2 * X[:, 2])
    network = train(X[:320], y[:320], (16, 16), epochs=60, seed=0)
    linear = LinearModel.fitted(X[:320], y[:320])
    assert error(network.predicted(X[320:]), y[320:]) < 0.4 * error(linear.predicted(X[320:]), y[320:])


def test_equal_seeds_train_equal_networks_and_a_mean_is_of_its_members() -> None:
    y = np.abs(X[:, 0])
    one, same, other = (train(X, y, (8,), epochs=3, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.predicted(X), same.predicted(X))
    assert not np.array_equal(one.predicted(X), other.predicted(X))
    mean = Networks((one, other)).predicted(X)
    assert np.allclose(mean, (one.predicted(X) + other.predicted(X)) / 2)


def test_trees_learn_steps() -> None:
    y = np.where(X[:, 1] > 0.5, 2.0, np.where(X[:, 3] > -1, 1.0, 0.0))
    model = Boosting.fitted(X[:320], y[:320], 60)
    assert error(model.predicted(X[320:]), y[320:]) < 0.2


def test_a_tree_is_left_where_its_columns_tell_nothing() -> None:
    constant = np.ones((50, 2))
    model = Boosting.fitted(constant, np.arange(50.0), 5)
    assert np.allclose(model.predicted(constant), 24.5)


def test_a_roofline_finds_both_roofs_and_the_least_time() -> None:
    fast = RANDOM.integers(0, 2, 500).astype(float)
    operations, moved = RANDOM.uniform(10, 34, 500), RANDOM.uniform(10, 34, 500)
    seconds = np.maximum(np.maximum(operations - 30 - 2 * fast, moved - 33), -16)
    columns = np.column_stack([fast, operations, moved])
    model = Roofline.fitted(columns, operations - seconds, 1)
    assert model.memory == pytest.approx(-33, abs=0.1) and model.least == pytest.approx(-16, abs=0.1)
    assert model.weights == pytest.approx([-2, -30], abs=0.1)
    assert error(model.predicted(columns), operations - seconds) < 0.1


def test_a_roofline_knows_latencies_where_little_goes_on_at_once() -> None:
    """Volkov's law: latency over the pieces at once, or throughput, of arithmetic and of memory."""
    pieces, operations = RANDOM.uniform(0, 10, 800), RANDOM.uniform(20, 34, 800)
    moved = RANDOM.uniform(20, 34, 800)
    seconds = np.max([operations - 30, moved - 31, operations - 25 - pieces, moved - 24 - pieces], axis=0)
    columns = np.column_stack([RANDOM.integers(0, 2, 800), pieces, operations, moved])
    alone, both = (Roofline.fitted(columns, operations - seconds, 1, each) for each in (0, 1))
    assert error(both.predicted(columns), operations - seconds) < 0.1
    assert error(alone.predicted(columns), operations - seconds) > 0.5
    assert both.latencies == pytest.approx(np.array([[-1, -25], [-1, -24]]), abs=0.15)


@pytest.mark.parametrize(
    "model",
    [
        LinearModel.fitted(X, X[:, 0]),
        Roofline.fitted(X, X[:, 0], 2),
        Roofline.fitted(X, X[:, 0], 1, 2),
        Boosting.fitted(X, X[:, 0], 3),
        Networks(tuple(train(X, X[:, 0], (5, 3), epochs=1, seed=seed) for seed in (0, 1))),
    ],
    ids=lambda model: type(model).__name__,
)
def test_arrays_are_the_model(model: Any) -> None:
    again = type(model).of_arrays(model.arrays())
    assert np.array_equal(again.predicted(X), model.predicted(X))
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in model.arrays().values())


def test_many_rows_are_predicted_as_few_are() -> None:
    network = train(X, X[:, 0], (8,), epochs=1, seed=0)
    many = np.tile(X, (30, 1))
    assert np.allclose(network.predicted(many), np.tile(network.predicted(X), 30), atol=1e-5)
    assert len(network.predicted(X[:0])) == 0
