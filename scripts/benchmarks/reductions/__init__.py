"""Reductions beside NumPy, PyTorch and numba."""
