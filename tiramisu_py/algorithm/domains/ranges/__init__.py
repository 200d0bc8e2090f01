"""Ranges of values: of the parts of an index, and of everything that an algorithm computes."""
