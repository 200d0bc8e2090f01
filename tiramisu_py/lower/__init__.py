"""From a proven program to loop IR."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.lower.lowering import lower
    from tiramisu_py.lower.pass_stages import PassFailedError, Stage, shape, stages

front(
    __name__,
    {
        "tiramisu_py.lower.lowering": "lower",
        "tiramisu_py.lower.pass_stages": "PassFailedError, Stage, shape, stages",
    },
)

__all__ = [
    "PassFailedError",
    "Stage",
    "lower",
    "shape",
    "stages",
]
