"""Modules of the folders of examples and benchmarks, several of which have the same names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def modules_of(folder: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Imports modules of a folder by name; afterwards they are forgotten, and others of these names are as before."""
    names = {file.stem for file in folder.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(others)
