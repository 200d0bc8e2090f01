"""Exact counts by isl: operations, bytes, elements, messages."""
