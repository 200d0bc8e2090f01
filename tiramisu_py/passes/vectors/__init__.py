"""Passes on vector loops: widen, mask, narrow, split to registers, pack."""
