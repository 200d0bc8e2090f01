"""Benchmarks, each beside something that is not ours; `scripts/bench` runs them."""
