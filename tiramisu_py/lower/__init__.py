"""From a proven program to loop IR, and from loop IR to faster loop IR."""

from tiramisu_py.lower.lowering import lower

__all__ = ["lower"]
