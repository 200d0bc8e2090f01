"""From a proven program to loop IR, and from loop IR to faster loop IR."""

from tiramisu_py.lower.lowering import lower
from tiramisu_py.lower.passes import optimise
from tiramisu_py.lower.traced import traced

__all__ = ["lower", "optimise", "traced"]
