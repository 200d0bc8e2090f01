"""Tuning: choosing the points at which a level is partitioned, and the best schedule of a space."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.tuning import filters
    from tiramisu_py.tuning.balancing import balance
    from tiramisu_py.tuning.learned import Choice, Choices, Collected, FitReport, InputAware, input_aware
    from tiramisu_py.tuning.machine_model import Machine, MemoryLevel
    from tiramisu_py.tuning.memory.curve import RokCurve, RokPoint, rok
    from tiramisu_py.tuning.memory.planning import MemoryPlan, plan
    from tiramisu_py.tuning.result import Balance, BalancedPart
    from tiramisu_py.tuning.search import Tuned, TunedPoint, powers_of_two, tune
    from tiramisu_py.tuning.storage_rates import Storage

front(
    __name__,
    {
        "tiramisu_py.tuning.balancing": "balance",
        "tiramisu_py.tuning.learned": "Choice, Choices, Collected, FitReport, InputAware, input_aware",
        "tiramisu_py.tuning.machine_model": "Machine, MemoryLevel",
        "tiramisu_py.tuning.memory.curve": "RokCurve, RokPoint, rok",
        "tiramisu_py.tuning.memory.planning": "MemoryPlan, plan",
        "tiramisu_py.tuning.result": "Balance, BalancedPart",
        "tiramisu_py.tuning.search": "Tuned, TunedPoint, powers_of_two, tune",
        "tiramisu_py.tuning.storage_rates": "Storage",
    },
    modules="filters",
)

__all__ = [
    "Balance",
    "BalancedPart",
    "Choice",
    "Choices",
    "Collected",
    "FitReport",
    "InputAware",
    "Machine",
    "MemoryLevel",
    "MemoryPlan",
    "RokCurve",
    "RokPoint",
    "Storage",
    "Tuned",
    "TunedPoint",
    "balance",
    "filters",
    "input_aware",
    "plan",
    "powers_of_two",
    "rok",
    "tune",
]
