"""The adversarial machine over loop IR: runs it on NumPy arrays, in the least convenient order that it allows."""

from tiramisu_py.interpret.devices.host import run
from tiramisu_py.interpret.faults import InterpretError
from tiramisu_py.interpret.ranks.messages import Sent, Traffic
from tiramisu_py.interpret.ranks.ranks import interpret_ranks

__all__ = ["InterpretError", "Sent", "Traffic", "interpret_ranks", "run"]
