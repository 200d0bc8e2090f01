"""Oracles: independent answers that the proof, the lowering and the code are compared with."""
