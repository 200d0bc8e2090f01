"""The adversarial machine over loop IR: runs it on NumPy arrays, in the least convenient order that it allows."""

from tiramisu_py.interpret.devices.host_strand import run
from tiramisu_py.interpret.machine_faults import InterpretError
from tiramisu_py.interpret.ranks.run_ranks import interpret_ranks
from tiramisu_py.interpret.ranks.traffic import Sent, Traffic

__all__ = ["InterpretError", "Sent", "Traffic", "interpret_ranks", "run"]
