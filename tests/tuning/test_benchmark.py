"""The benchmark of splits: a row for each, the proposal among them."""

from __future__ import annotations

from pathlib import Path

from tests.folders import modules_of

BENCHMARKS = Path(__file__).resolve().parents[2] / "scripts" / "benchmarks"


def test_a_sweep_has_a_row_for_each_split_and_one_for_the_proposal() -> None:
    with modules_of(BENCHMARKS) as load:
        module = load("balance")
        found = module.rows("simulator", True)
        extent = module.sizes("simulator", True)["R"]
    assert [int(row[0]) + int(row[1]) for row in found] == [extent] * len(found)
    assert {extent * k // module.STEPS for k in range(module.STEPS + 1)} <= {int(row[0]) for row in found}
    which = [row[-1] for row in found]
    assert which[0].startswith("cores alone")
    assert which[-1].startswith("GPU alone")
    assert sum("balance()" in words for words in which) == 1
    assert any("best" in words.split(", ") for words in which)
