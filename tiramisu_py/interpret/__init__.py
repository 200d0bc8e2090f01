"""The adversarial machine over loop IR: runs it on NumPy arrays, in the least convenient order that it allows."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.interpret.array_steps import ArraySteps
    from tiramisu_py.interpret.devices.host_strand import run
    from tiramisu_py.interpret.machine_faults import InterpretError
    from tiramisu_py.interpret.ranks.run_ranks import interpret_ranks
    from tiramisu_py.interpret.ranks.traffic import Sent, Traffic

front(
    __name__,
    {
        "tiramisu_py.interpret.array_steps": "ArraySteps",
        "tiramisu_py.interpret.devices.host_strand": "run",
        "tiramisu_py.interpret.machine_faults": "InterpretError",
        "tiramisu_py.interpret.ranks.run_ranks": "interpret_ranks",
        "tiramisu_py.interpret.ranks.traffic": "Sent, Traffic",
    },
)

__all__ = ["ArraySteps", "InterpretError", "Sent", "Traffic", "interpret_ranks", "run"]
