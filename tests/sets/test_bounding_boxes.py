"""The smallest interval of constant extent, against enumeration of small relations."""

from __future__ import annotations

import random
from collections.abc import Iterable

import islpy as isl
import pytest

from tiramisu_py import sets

SIZES = range(7)
INPUTS = range(-1, 6)


def at(n: int, i: int) -> isl.Point:
    """A value of the parameter, and an input."""
    return isl.Set(f"[N] -> {{ [i] : N = {n} and i = {i} }}").sample_point()


def value(form: isl.Aff, n: int, i: int) -> int:
    """A form of the parameter and the input at one point."""
    return int(form.to_pw_aff().eval(at(n, i)).to_python())


def images(of: isl.Map, n: int, i: int) -> list[int]:
    """The images of one input, by enumeration."""
    here = of.intersect_domain(isl.Set.from_point(at(n, i))).range().project_out(isl.dim_type.param, 0, 1)
    found = []
    here.foreach_point(lambda point: found.append(point.get_coordinate_val(isl.dim_type.set, 0).to_python()))
    return found


def above(of: isl.Map, low: isl.Aff, sizes: Iterable[int]) -> list[int]:
    """How far each image is above a form, by enumeration of sizes and inputs."""
    return [x - value(low, n, i) for n in sizes for i in INPUTS for x in images(of, n, i)]


def relation(seed: int) -> isl.Map:
    """Strips of constant width that move with the input, cut off at borders; sometimes with holes."""
    chosen = random.Random(seed)
    parts = []
    for _ in range(chosen.randint(1, 3)):
        step, first, width = chosen.randint(-2, 3), chosen.randint(-3, 3), chosen.randint(1, 4)
        holes = " and x mod 2 = 0" if chosen.random() < 0.3 else ""
        border = chosen.choice(["", " and x >= 0", " and x < N", " and 0 <= x < N", " and x <= i + N"])
        parts.append(f"[i] -> [x] : {step}*i + {first} <= x < {step}*i + {first} + {width}{border}{holes}")
    return isl.Map(f"[N] -> {{ {'; '.join(parts)} }}").intersect_domain(isl.Set("{ [i] : 0 <= i < 5 }")).coalesce()


@pytest.mark.parametrize("seed", range(60))
def test_an_interval_holds_all_images_and_is_no_longer_than_they_need(seed: int) -> None:
    of = relation(seed)
    interval = sets.interval_around(of)
    if interval is not None:
        far = above(of, interval.low, (*SIZES, 20))
        assert min(far) >= 0
        assert max(far) == interval.extent - 1
    else:
        for low in sets.lower_bounds(of):
            assert min(above(of, low, SIZES)) < 0 or max(above(of, low, [20])) > max(above(of, low, SIZES))


def test_most_of_the_relations_have_an_interval() -> None:
    assert sum(sets.interval_around(relation(seed)) is not None for seed in range(60)) == 50


@pytest.mark.parametrize(("step", "first", "width"), [(1, 0, 1), (4, -1, 4), (-2, 3, 5), (0, 2, 3)])
def test_a_strip_is_its_own_interval_also_where_a_border_cuts_it(step: int, first: int, width: int) -> None:
    strip = f"{step}*i + {first} <= x < {step}*i + {first + width}"
    for border in ("", " and x < N"):
        interval = sets.interval_around(isl.Map(f"[N] -> {{ [i] -> [x] : {strip}{border} }}"))
        assert interval is not None
        assert interval.extent == width
        assert all(value(interval.low, n, i) == step * i + first for n in SIZES for i in INPUTS)


@pytest.mark.parametrize(
    "of",
    [
        "[N] -> { [i] -> [x] : 0 <= x < N }",
        "[N] -> { [i] -> [x] : i <= x <= 2i and i >= 0 }",
        "[N] -> { [i] -> [x] : x <= i }",
        "[N] -> { [i] -> [x] : x >= i }",
    ],
)
def test_what_no_constant_bounds_has_no_interval(of: str) -> None:
    assert sets.interval_around(isl.Map(of)) is None


def test_of_several_forms_the_one_with_the_shortest_interval_begins_it() -> None:
    of = isl.Map("[N] -> { [i] -> [x] : 2i <= x <= 2i + 3 and 0 <= i <= 4 }")
    space = of.get_space().domain()
    zero, doubled = sets.constant(space, 0), sets.scaled(sets.variables(space)[0], 2)
    by_zero = sets.interval_around(of, [zero])
    assert by_zero is not None
    assert by_zero.extent == 12
    both = sets.interval_around(of, [zero, doubled])
    assert both is not None
    assert both.extent == 4
    assert value(both.low, 0, 3) == 6
    assert sets.interval_around(of, [sets.plus(doubled, 1)]) is None, "an image is below"


def test_between_bounds_the_nearest_pair_that_a_constant_is_between_counts() -> None:
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=["N", "M"])
    n, m = (sets.parameter(space, name) for name in ("N", "M"))
    interval = sets.interval_between([sets.plus(n, -4), sets.plus(n, -2), m], [sets.plus(n, 1), sets.scaled(m, 2)])
    assert interval is not None
    assert interval.extent == 4
    assert interval.low.plain_is_equal(sets.plus(n, -2))
    assert sets.interval_between([n], [m]) is None
    assert sets.interval_between([], [n]) is None


@pytest.mark.parametrize("sign", [1, -1])
def test_a_near_bound_of_a_form_is_on_its_side_everywhere_and_meets_it_somewhere(sign: int) -> None:
    form = isl.PwAff("[N] -> { [(N)] : N >= 3; [(2N - 3)] : 0 <= N < 3 }")
    bounds = sets.nearest_bounds(form, sign)
    assert bounds
    for bound in bounds:
        gaps = []
        for n in range(12):
            point = isl.Set(f"[N] -> {{ : N = {n} }}").sample_point()
            exact, near = form.eval(point).to_python(), bound.to_pw_aff().eval(point).to_python()
            gaps.append(sign * (exact - near))
        assert min(gaps) == 0, "the bound is on the other side, or nowhere near"
