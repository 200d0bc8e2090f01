"""From a proven program to loop IR."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.lower.lowering import lower

front(
    __name__,
    {
        "tiramisu_py.lower.lowering": "lower",
    },
)

__all__ = ["lower"]
