"""From a proven program to loop IR."""

from tiramisu_py.lower.lowering import lower

__all__ = ["lower"]
