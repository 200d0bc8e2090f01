"""Candidates of computations that stand alone: values, sums and products."""
