"""Counts as polynomials: equal to exact counts far from the sizes that they were fitted to, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

import tiramisu_py as tm
from tests.programs import pictured
from tiramisu_py.view.fitted_costs import _interpolated, symbolic_cost


def test_a_polynomial_is_found_from_its_values() -> None:
    found = _interpolated([[2, 5, 9], [1, 4]], lambda x, y: 3 * x * x * y - 7 * x + 2)
    kept = {key: value for key, value in found.items() if value}
    assert kept == {(2, 1): Fraction(3), (1, 0): Fraction(-7), (0, 0): Fraction(2)}


def test_polynomials_are_exact_counts_at_large_sizes() -> None:
    f = pictured.tiled()
    found, cost = f.cost("symbolic"), f.cost(N=1000, M=2000)
    for name in ("operations", "accessed", "distinct", "compulsory", "through_tiles"):
        assert found[name](N=1000, M=2000) == getattr(cost, name), name
    assert str(found["accessed"]) == "accessed = 40*N*M"
    assert str(found["instances of bx"]) == "instances of bx = 3/2*N*M"
    assert "blur for N = 4*n >= 8, M = 4*n >= 8; fitted to 4 counts at most, verified at 8 others, not proven:" in str(
        found
    )


def test_each_class_of_remainders_has_polynomials_of_its_own() -> None:
    f = pictured.tiled()
    found, cost = f.cost("symbolic", remainders={"N": 1, "M": 3}), f.cost(N=101, M=203)
    for name in ("operations", "distinct", "through_tiles"):
        assert found[name](N=101, M=203) == getattr(cost, name), name
    with pytest.raises(tm.ArgumentError, match=r"operations is fitted for N = 4\*n \+ 1 >= 9, not for 100"):
        found["operations"](N=100, M=203)


def test_without_tiles_one_polynomial_is_for_all_sizes() -> None:
    found = pictured.product().cost("symbolic")
    assert str(found["operations"]) == "operations = 2*N**3"
    assert found["compulsory"](N=777) == 3 * 4 * 777**2
    with pytest.raises(tm.ArgumentError, match="operations: give N"):
        found["operations"](M=3)
    with pytest.raises(tm.ArgumentError, match="there is no count 'bytes': operations"):
        found["bytes"]
    alone = pictured.plain().cost("symbolic", M=10)
    assert str(alone["operations"]) == "operations = 60*N + 60"


def test_messages_between_ranks_are_counted_too() -> None:
    found = pictured.distributed().cost("symbolic")
    moved = pictured.distributed().cost(C=1000).communication.transfers
    assert found["moved"](C=1000) == sum(each.bytes for each in moved)


def test_a_count_with_which_held_out_sizes_disagree_has_no_polynomial() -> None:
    program = pictured.product().check().program
    assert program is not None

    def counts(sizes: Mapping[str, int]) -> Mapping[str, int]:
        size = sizes["N"]
        return {"thirds": size * size // 3, "least": min(size, 20), "cubes": size**3}

    found = symbolic_cost(program, counts, {}, {})
    assert str(found["cubes"]) == "cubes = N**3"
    for name in ("thirds", "least"):
        assert "no polynomial: counted" in str(found[name])
        with pytest.raises(tm.ArgumentError, match=f"{name} has no polynomial: counted"):
            found[name](N=9)


def test_what_cannot_be_fitted_is_refused() -> None:
    f = pictured.plain()
    with pytest.raises(tm.ArgumentError, match="all sizes are given"):
        f.cost("symbolic", N=3, M=4)
    with pytest.raises(tm.ArgumentError, match="has the parameters N, M, and no K"):
        f.cost("symbolic", K=3)
    with pytest.raises(tm.ArgumentError, match="has the parameters N, M, and no K"):
        f.cost("symbolic", remainders={"K": 3})
