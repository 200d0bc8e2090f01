"""What a program with vectors includes."""

from __future__ import annotations

from tiramisu_py.backends.c.vectors.vector_types import VectorTypes


def included(types: VectorTypes) -> list[str]:
    """The headers that a source includes for its vectors."""
    return [file.name for file in types.runtime() if file.included]
