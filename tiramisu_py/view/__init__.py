"""What people look at: pseudocode."""

from tiramisu_py.view.pseudocode import pseudocode

__all__ = ["pseudocode"]
