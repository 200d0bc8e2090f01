"""Parallel loops on CPU cores, in OpenMP."""
