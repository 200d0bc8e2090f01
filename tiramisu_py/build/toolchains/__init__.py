"""Compilers, what they make, and where that is kept."""
