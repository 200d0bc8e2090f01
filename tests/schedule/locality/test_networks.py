"""Stages of a network, each with its cases, computed inside one loop: what is needed of them has few pieces."""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm
from tiramisu_py import sets
from tiramisu_py.schedule.locality.holes import MOST_PIECES
from tiramisu_py.schedule.locality.needed_inside import through_others

(B,) = tm.params("B")
b, i = tm.iters("b i")


def butterflies(stages: int) -> tuple[tm.Function, list[tm.Computation]]:
    """Sums and differences of pairs that are further apart in each stage: Walsh and Hadamard's transform."""
    f = tm.Function("walsh", params=[B])
    values: tm.Input | tm.Computation = f.input("x", tm.int32, [2**stages, B])
    found: list[tm.Computation] = []
    for apart in (2**k for k in range(stages)):
        pair = values[i, b] + values[i + apart, b], values[i - apart, b] - values[i, b]
        values = f.computation(f"h{apart}", {i: 2**stages, b: B}, tm.select((i // apart) % 2 == 0, *pair))
        found.append(values)
    f.outputs(found[-1])
    return f, found


def test_what_leads_to_all_values_of_a_network_is_all_values_in_few_pieces() -> None:
    f, stages = butterflies(6)
    last = stages[-1]
    last.interchange(i, b)
    program = f.program
    (statement,) = program.statements_of(last.name)
    inside = program.with_this_loop(statement.loops[0])
    needed = through_others(program, stages[0].name, statement.loops[:1], inside)
    assert needed is not None and needed.n_basic_map() <= MOST_PIECES
    at_three = sets.fixed_map(needed, {"B": 3})
    assert set(sets.points(sets.flat_pairs(at_three, "pair"))) == {
        (column, row, column) for column in range(3) for row in range(64)
    }


def test_a_network_in_one_loop_is_that_of_numpy() -> None:
    f, stages = butterflies(5)
    for stage in stages:
        stage.interchange(i, b)
    for stage in stages[:-1]:
        stage.compute_at(stages[-1], b)
    x = np.random.default_rng(0).integers(-9, 9, (32, 3)).astype(np.int32)
    matrix = np.ones((1, 1), np.int32)
    for _ in range(5):
        matrix = np.kron(np.array([[1, 1], [1, -1]], np.int32), matrix)
    np.testing.assert_array_equal(f.compile()(x), matrix @ x)
