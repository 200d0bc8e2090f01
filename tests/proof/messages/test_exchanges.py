"""Exchanges: who meets whom, however long-winded the relation is that says it."""

from __future__ import annotations

import islpy as isl

from tiramisu_py.proof.messages.exchanges import _one_to_one


def overlapping(pieces: int, text: str) -> isl.Map:
    """A relation between elements of tiles as a union of pieces that lie in each other, as subtraction makes them."""
    found = isl.Map(f"[N, M] -> {{ s[q, r, i, j] -> {text} : false }}")
    for a in range(pieces):
        for b in range(pieces):
            where = f"{a} <= q and 2q <= N - {b} and {b} <= r and 2r <= M - {a} and 2q <= i <= 2q + 1 and 2r <= j < M"
            found = found.union(isl.Map(f"[N, M] -> {{ s[q, r, i, j] -> {text} : {where} }}"))
    return found


def test_pairs_that_are_one_to_one_are_found_to_be_so_with_little_work() -> None:
    """Piece by piece, isl takes ten times as many operations and more: it gives up within these."""
    same, merged = (overlapping(12, f"t[q + 1, r, i, {last}]") for last in ("j", "0"))
    for pairs, wanted in ((same, True), (merged, False)):
        pairs.get_ctx().reset_operations()
        pairs.get_ctx().set_max_operations(30_000)  # it takes less than 10,000
        try:
            assert bool(_one_to_one({("s", "t"): pairs})) is wanted
        finally:
            pairs.get_ctx().set_max_operations(0)
