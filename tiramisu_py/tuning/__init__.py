"""Tuning: choosing the points at which a level is partitioned, and the best schedule of a space."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.tuning.balancing import balance
    from tiramisu_py.tuning.machine_model import Machine
    from tiramisu_py.tuning.memory_levels import MemoryLevel
    from tiramisu_py.tuning.result import Balance, BalancedPart
    from tiramisu_py.tuning.search import Tuned, TunedPoint, powers_of_two, tune

front(
    __name__,
    {
        "tiramisu_py.tuning.balancing": "balance",
        "tiramisu_py.tuning.machine_model": "Machine",
        "tiramisu_py.tuning.memory_levels": "MemoryLevel",
        "tiramisu_py.tuning.result": "Balance, BalancedPart",
        "tiramisu_py.tuning.search": "Tuned, TunedPoint, powers_of_two, tune",
    },
)

__all__ = [
    "Balance",
    "BalancedPart",
    "Machine",
    "MemoryLevel",
    "Tuned",
    "TunedPoint",
    "balance",
    "powers_of_two",
    "tune",
]
