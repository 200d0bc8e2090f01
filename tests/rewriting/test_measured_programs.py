"""The ten programs of `scripts/bench gradients`: their steps are right, and give what JAX gives."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tiramisu_py as tm
from benchmarks.gradients import __main__ as gradients
from benchmarks.gradients.compiling import Compiling
from benchmarks.gradients.peers import jax_step
from benchmarks.gradients.programs import PROGRAMS, in_segments, in_tiles
from tests.rewriting.judging import listed


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_gives_the_values_and_gradients_of_jax(name: str) -> None:
    pytest.importorskip("jax")
    program = PROGRAMS[name]
    f, step = program.make(), tm.vjp(program.make(), wrt=program.wrt).step
    assert step.check().ok
    given = program.arguments(program.small)
    (value,) = listed(f.evaluate(**given))
    weights = program.weights({f.algorithm.outputs[0]: value})
    found = listed(step.evaluate(**given, **weights))
    expected = jax_step(name, given, program.wrt, *weights.values())()
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, right, rtol=2e-3, atol=2e-4 * float(np.abs(right).max()))


def test_the_page_has_ratios_to_the_best_peer() -> None:
    times = {gradients.OURS: 0.001, gradients.ALONE: 0.0005, gradients.JAX: 0.004, gradients.EAGER: 0.002}
    found = [gradients.Measured("csr", 1, times, 7)]
    costs = [Compiling("csr", 0.01, 0.03, 0.2, 0.5, 1000, 2000)]
    page = gradients.page(found, costs, [gradients.JAX, gradients.EAGER], "A note.")
    assert found[0].best == 2.0 and "A note." in page
    row = next(line for line in page.splitlines() if line.startswith("| csr"))
    assert [cell.strip() for cell in row.strip("|").split("|")][-5:] == ["2.00", "4.00", "2.00", "2.00", "7"]


def test_a_peer_that_was_not_measured_for_a_program_leaves_its_cells_empty() -> None:
    both = {gradients.OURS: 0.001, gradients.ALONE: 0.001, gradients.JAX: 0.002, gradients.EAGER: 0.009}
    one = {name: seconds for name, seconds in both.items() if name != gradients.EAGER}
    found = [gradients.Measured("csr", 1, both, 7), gradients.Measured("heat", 1, one, 8)]
    *_, without, means = (
        [cell.strip() for cell in line] for line in gradients.rows(found, [gradients.JAX, gradients.EAGER])
    )
    assert without == ["heat", "1", "1", "2", "", "1.00", "2.00", "", "2.00", "8"]
    assert means[-4:] == ["2.00", "9.00", "2.00", ""]


def test_what_is_scheduled_by_hand_takes_few_commands_and_changes_no_bit() -> None:
    program = PROGRAMS["conv2d"]
    step = tm.vjp(program.make(), wrt=program.wrt).step
    for tile in program.tiles:
        in_tiles(step, *tile)
    report = step.check()
    assert report.ok and report.bits == "bits preserved" and len(step.commands) == 22


@pytest.mark.parametrize("name", ["heat", "wave"])
def test_segments_by_hand_change_no_bit_and_hold_few_levels(name: str) -> None:
    program = PROGRAMS[name]
    step = tm.vjp(program.make(), wrt=program.wrt).step
    assert program.segments is not None
    in_segments(step, *program.segments, 2)
    report = step.check()
    assert report.ok and report.bits == "bits preserved" and len(step.commands) <= 10
    every = tm.vjp(program.make(), wrt=program.wrt).step.cost("memory", **program.large).peak
    assert step.cost("memory", **program.large).peak < every / 3
    (value,) = listed(program.make().evaluate(**program.arguments(program.small)))
    given = program.arguments(program.small) | program.weights({program.make().algorithm.outputs[0]: value})
    for found, expected in zip(listed(step.compile(threads=2)(**given)), listed(step.evaluate(**given)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_bytes_that_are_predicted_for_heat_are_those_that_its_code_allocates() -> None:
    sizes = {"T": 50, "N": 24, "M": 40}
    step = tm.vjp(PROGRAMS["heat"].make(), wrt=PROGRAMS["heat"].wrt).step
    step.auto_schedule(target="x86-64-v3", threads=1)
    text = "".join(step.source().values())
    found = re.findall(r"\*const (\w+) = tm_\w+\((?:[^;]*?, )?TM_BYTES\(float, ([^;]*?)\)\)", text)
    allocated = {
        name: 4 * math.prod(eval(each, {}, dict(sizes)) for each in extents.split(", ")) for name, extents in found
    }
    predicted = {each.name: each.bytes for each in step.cost(**sizes).arrays}
    assert allocated == {name: predicted[name] for name in ("u", "d_u")}
    assert predicted["d_u"] == 2 * 24 * 40 * 4 and predicted["u"] == 51 * 24 * 40 * 4
