"""The adversarial machine over loop IR: runs it on NumPy arrays, in the least convenient order that it allows."""

from tiramisu_py.interpret.faults import InterpretError
from tiramisu_py.interpret.host import run

__all__ = ["InterpretError", "run"]
