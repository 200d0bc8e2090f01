"""Scalar expressions and names in C."""
