"""Passes from loop IR to loop IR, in an order for each target."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.passes.memory.temporary_bytes import Held, Moment, moments, temporary_bytes
    from tiramisu_py.passes.pipeline import PIPELINE, Pipeline, optimise
    from tiramisu_py.passes.stages import PassFailedError, Stage, shape, stages
    from tiramisu_py.passes.tracing import traced
    from tiramisu_py.passes.vectors.remarks import remarks
    from tiramisu_py.passes.vectors.whole_lines import as_usual, line_starts, side_by_side

front(
    __name__,
    {
        "tiramisu_py.passes.vectors.remarks": "remarks",
        "tiramisu_py.passes.vectors.whole_lines": "as_usual, line_starts, side_by_side",
        "tiramisu_py.passes.pipeline": "PIPELINE, Pipeline, optimise",
        "tiramisu_py.passes.memory.temporary_bytes": "Held, Moment, moments, temporary_bytes",
        "tiramisu_py.passes.stages": "PassFailedError, Stage, shape, stages",
        "tiramisu_py.passes.tracing": "traced",
    },
)

__all__ = [
    "Held",
    "Moment",
    "PIPELINE",
    "PassFailedError",
    "Pipeline",
    "Stage",
    "line_starts",
    "moments",
    "optimise",
    "remarks",
    "shape",
    "side_by_side",
    "stages",
    "temporary_bytes",
    "traced",
    "as_usual",
]
