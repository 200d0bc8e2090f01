"""Where the part of an array that a call takes is in a buffer: from element to element by constant steps, or not."""

from __future__ import annotations

from tiramisu_py import sets
from tiramisu_py.program.program import Program
from tiramisu_py.program.storage import Storage


def steps_of(program: Program, storage: Storage, position: int) -> tuple[int, ...] | None:
    """By how much each index of the buffer grows with an index of the values, by its position; None without such steps.

    ``b[j, i + 2]`` of ``v[i, j]`` gives (0, 1) for i; ``b[i % 4]`` has none.
    """
    dim = len(program.frame(storage)) + position
    found = [sets.stride(form, dim) for form in sets.outputs(storage.index)]
    steps = tuple(step for step in found if step is not None)
    return steps if len(steps) == len(found) else None
