"""The boundary to isl's AST generator: exceptions pass its frames, handles live as long as it may call them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import islpy as isl
import pytest

from tiramisu_py.lower.loops.isl_ast import Leaf, generated, positions


class Stop(Exception):
    """What a callback raises in these tests."""


@pytest.fixture
def collected() -> Iterator[None]:
    """Collections look at what the test makes, not at all that other tests have left in this process."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def _schedule(context: isl.Context) -> tuple[isl.Set, isl.UnionMap]:
    params = isl.Set.read_from_str(context, "[N] -> { : N >= 0 }")
    times = "[N] -> { S[i] -> [0, i]: 0 <= i < N; T[i] -> [1, i]: 0 <= i < N }"
    return params, isl.UnionMap.read_from_str(context, times)


def test_leaves_are_numbered_in_the_order_in_which_they_are_met():
    params, schedule = _schedule(isl.Context())
    seen: list[str] = []
    tree = generated(params, schedule, ["s", "d"], None, lambda leaf: seen.append(leaf.statement))
    assert seen == ["S", "T"]
    assert list(positions(tree)) == [0, 1]


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("failing", ["S", "T"])
def test_an_exception_in_a_callback_is_raised_as_itself_and_isl_goes_on_working(failing):
    context = isl.Context()
    params, schedule = _schedule(context)

    def stop(leaf: Leaf) -> None:
        if leaf.statement == failing:
            raise Stop(leaf.statement)

    for _ in range(50):
        with pytest.raises(Stop, match=failing):
            generated(params, schedule, ["s", "d"], None, stop)
        gc.collect()
    seen: list[str] = []
    generated(params, schedule, ["s", "d"], None, lambda leaf: seen.append(leaf.statement))
    assert seen == ["S", "T"]


@pytest.mark.usefixtures("collected")
def test_a_callback_outlives_everything_else_that_is_dropped():
    params, schedule = _schedule(isl.Context())
    for _ in range(200):
        found: list[list[isl.AstExpr]] = []
        generated(params, schedule, ["s", "d"], None, lambda leaf, into=found: into.append(leaf.statement))  # type: ignore[misc]
        gc.collect()
        assert len(found) == 2
