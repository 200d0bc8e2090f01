"""Exchanges: who meets whom, however long-winded the relation is that says it."""

from __future__ import annotations

import time

import islpy as isl

from tiramisu_py.proof.exchanges import _one_to_one


def overlapping(pieces: int, text: str) -> isl.Map:
    """A relation between elements of tiles as a union of pieces that lie in each other, as subtraction makes them."""
    found = isl.Map(f"[N, M] -> {{ s[q, r, i, j] -> {text} : false }}")
    for a in range(pieces):
        for b in range(pieces):
            where = f"{a} <= q and 2q <= N - {b} and {b} <= r and 2r <= M - {a} and 2q <= i <= 2q + 1 and 2r <= j < M"
            found = found.union(isl.Map(f"[N, M] -> {{ s[q, r, i, j] -> {text} : {where} }}"))
    return found


def test_pairs_that_are_one_to_one_are_found_to_be_so_quickly() -> None:
    """Piece by piece, isl takes ten times as long and more."""
    same, merged = (overlapping(12, f"t[q + 1, r, i, {last}]") for last in ("j", "0"))
    before = time.process_time()
    assert _one_to_one({("s", "t"): same})
    assert not _one_to_one({("s", "t"): merged})
    assert time.process_time() - before < 0.5
