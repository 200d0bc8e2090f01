"""The arithmetic of activations on SSDs, beside the numbers that the thesis prints."""

from __future__ import annotations

import pytest

from benchmarks.training import search
from benchmarks.training import transformers as formulas


def test_scenarios_have_the_lifetimes_and_rates_of_the_thesis() -> None:
    endurance = 4 * formulas.DISKS[1].endurance * 1e15 * formulas.SEQUENTIAL
    second = 4 * 0.6e15 * formulas.SEQUENTIAL * formulas.SHORT_LIVED
    for name, one in formulas.SCENARIOS:
        assert one.years(endurance) > 3 and one.bandwidth < 12.1e9, name
        assert one.years(second) > 2, name


def test_bert_has_the_bytes_and_rates_of_the_thesis() -> None:
    for name, one, (offloaded, estimate, rate) in formulas.BERT:
        assert one.activations / 2**30 == pytest.approx(offloaded, rel=0.07), name
        assert one.activations / 2**30 == pytest.approx(estimate, rel=0.05), name
        assert one.bandwidth / 1e9 == pytest.approx(rate, rel=0.18), name
        assert all(formulas.upscaled(one, gpus).bandwidth < rate * 1e9 for gpus in (4, 8, 16, 64)), name


def test_two_numbers_explain_the_gains_of_larger_batches() -> None:
    for batch, said in formulas.BATCHES.items():
        assert formulas.gains(batch, *formulas.fitted()) == pytest.approx(said, abs=1.6)


def test_activations_grow_faster_than_weights_and_slower_than_operations() -> None:
    one = formulas.Training(2048, 24, 256, 2048, 1, 1e12)
    large = one.scaled(4096.0)
    grown, acts = large.operations / one.operations, large.activations / one.activations
    assert grown**0.8 < acts < grown**0.87
    assert grown**0.47 < large.parameters / one.parameters < grown**0.53


def test_the_search_takes_what_fits_and_is_fastest() -> None:
    on = search.Cluster(96)
    found = list(search.choices(12288, 96, 1536, 2048, on))
    best = search.best(found)
    assert best is not None
    assert all(each.seconds >= best.seconds for each in found)
    assert all(each.memory <= on.memory and each.bandwidth <= on.write for each in found)
    kept, filed = search.best(found, "keep"), search.best(found, "file")
    assert kept is not None and filed is not None
    assert filed.seconds <= kept.seconds and filed.memory < kept.memory  # a shorter pipeline fits
    no_disk = list(search.choices(12288, 96, 1536, 2048, search.Cluster(96, write=1e9)))
    assert search.best(no_disk, "file") is None
    assert not list(search.choices(12288, 96, 1536, 2048, search.Cluster(96, memory=1e9)))
