"""Declarations, checked against the algorithm; whether the algorithm itself is sound."""
