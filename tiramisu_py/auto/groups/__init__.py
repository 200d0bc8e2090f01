"""Candidates of computations that depend on themselves or on each other."""
