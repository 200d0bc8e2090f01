"""Passes on kernels: predicates, full blocks, loads first."""
