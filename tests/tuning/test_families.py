"""The benchmarks of shapes compare what they measure with NumPy, and keep it for later calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import loop_bytes, size_families, sparse_products


def test_block_sparse_products_are_compared_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sparse_products, "ROUNDS", 1)
    monkeypatch.setattr(sparse_products, "HEADS", 1)
    sparse_products.main([str(tmp_path / "kept"), "--lengths", "64", "--threads", "1"])
    kept = json.loads((tmp_path / "kept").read_text())
    assert set(kept["values"]) == {"64"} and set(kept["scores"]) == {"local, 64", "strided, 64", "random, 64"}
    assert kept["scores"]["local, 64"]["density"] == 0.25  # the blocks on the diagonal, of four rows
    assert "equally many rows" in capsys.readouterr().out


def test_steps_are_told_beside_the_bound_of_the_thesis() -> None:
    assert [round(sparse_products.bound(n, 1 / 8), 2) for n in (512, 1024, 2048, 8192)] == [1.58, 2.10, 3.00, 6.18]
    text = sparse_products.told_steps({"1024": {"density": 1 / 8, "dense": 0.42, "sparse": 0.25}})
    assert "1.68" in text and "2.10" in text and "0.80" in text


def test_a_family_is_told_by_the_geometric_mean_of_its_shapes(tmp_path: Path) -> None:
    times = {"(128, 128, 128)": (1e-3, 2e-3), "(256, 256, 256)": (1e-3, 0.5e-3), "(8, 256)": (1e-3, 3e-3)}
    shapes = {
        shape: {"seconds": {"ours": ours, "PyTorch": other, "PyTorch, planes": 2 * other}, "sizes": "rows=4"}
        for shape, (ours, other) in times.items()
    }
    (tmp_path / "kept").write_text(json.dumps({"processor": "x86-64-v3", "shapes": shapes}))
    text = size_families.told([tmp_path / "kept"])
    assert "1.00 (0.50 to 2.00)" in text and "3.00 (3.00 to 3.00)" in text and "8 x 8, 256 channels" in text


def test_loops_of_gpus_are_told_beside_what_their_schedules_ask_for() -> None:
    loop = {"bytes": 4096, "instructions": 300, "fused": 256, "wide": 18, "barriers": 2, "spills": 0, "loops": 1}
    product = {"columns": 32, "terms": 32, "products": 8, "asked": 8, "instructions": 90, "spills": 0}
    known = {"[64, 64, 8, 8, 4]": {"whole": loop}, loop_bytes.TENSOR: {"[32, 32]": product}}
    text = loop_bytes.told(known)
    assert "8 x 8 results a thread, blocks of 4 terms (1): 85% to 85%" in text
    assert [cell.strip() for cell in text.splitlines()[-1].strip("|").split("|")] == ["32", "32", "8", "8", "90", "0"]
    without = loop_bytes.told({"[64, 64, 8, 8, 4]": {"whole": loop}})
    assert "Tensor cores" in text and "Tensor cores" not in without
