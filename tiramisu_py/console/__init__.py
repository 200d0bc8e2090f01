"""The command line: ``tiramisu check script.py`` and the others."""

from tiramisu_py.console.invocation import main

__all__ = ["main"]
