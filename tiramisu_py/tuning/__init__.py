"""Tuning: choosing the points at which a level is partitioned."""

from tiramisu_py.tuning.balancing import balance
from tiramisu_py.tuning.machine_model import Machine
from tiramisu_py.tuning.result import Balance, BalancedPart

__all__ = ["Balance", "BalancedPart", "Machine", "balance"]
