"""The benchmark of splits: a row for each, the proposal among them."""

from __future__ import annotations

from benchmarks import balance


def test_a_sweep_has_a_row_for_each_split_and_one_for_the_proposal() -> None:
    found = balance.rows("simulator", True)
    extent = balance.sizes("simulator", True)["R"]
    assert [int(row[0]) + int(row[1]) for row in found] == [extent] * len(found)
    assert {extent * k // balance.STEPS for k in range(balance.STEPS + 1)} <= {int(row[0]) for row in found}
    which = [row[-1] for row in found]
    assert which[0].startswith("cores alone")
    assert which[-1].startswith("GPU alone")
    assert sum("balance()" in words for words in which) == 1
    assert any("best" in words.split(", ") for words in which)
