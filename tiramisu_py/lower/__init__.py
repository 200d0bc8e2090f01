"""From a proven program to loop IR, and from loop IR to faster loop IR."""

from tiramisu_py.lower.lowering import lower
from tiramisu_py.lower.passes import optimise

__all__ = ["lower", "optimise"]
