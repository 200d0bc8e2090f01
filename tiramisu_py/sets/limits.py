"""Limits on what isl may do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import islpy as isl


@contextmanager
def apart(context: isl.Context, operations: int) -> Iterator[None]:
    """A limit of its own for what can be done without; isl raises where it is reached, and counts anew after it."""
    limit = context.get_max_operations()
    context.reset_operations()
    context.set_max_operations(operations)
    try:
        yield
    finally:
        context.reset_operations()
        context.set_max_operations(limit)
