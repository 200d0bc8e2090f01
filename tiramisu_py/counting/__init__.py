"""Exact counts by isl: operations, bytes, elements, messages."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.counting.amounts import Communication
    from tiramisu_py.counting.communication import communication

front(
    __name__,
    {
        "tiramisu_py.counting.amounts": "Communication",
        "tiramisu_py.counting.communication": "communication",
    },
)

__all__ = ["Communication", "communication"]
