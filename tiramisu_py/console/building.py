"""Commands that compile: build, and what bench times."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from tiramisu_py.console.reading import Found
from tiramisu_py.console.scripts import one_function
from tiramisu_py.function import Function
from tiramisu_py.toolchain import Kernel


def build(given: Namespace) -> Found:
    """The exported folder of one function."""
    f = one_function(given)
    folder = compiled(f, given).export(given.output)
    files = sorted(str(path) for path in folder.iterdir())
    return "\n".join(files), {"folder": str(folder), "files": files}, True


def compiled(f: Function, given: Namespace, **options: Any) -> Kernel:
    """The kernel of a function, with the options of the command line."""
    return f.compile(target=given.target, compiler=given.compiler, device=given.device, **options)
