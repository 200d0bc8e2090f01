"""Compilers, their products, and the cache."""
