"""The stories of examples/, imported where they are."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def imported(folder: Path, name: str, prefix: str = "") -> Any:
    """The module of a file in a folder, whose modules import each other; a prefix keeps equal names apart."""
    if (known := sys.modules.get(prefix + name)) is not None:
        return known
    names = {each.stem for each in folder.glob("*.py")} if prefix else set()
    hidden = {each: sys.modules.pop(each) for each in names & sys.modules.keys()}
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        if not prefix:
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(prefix + name, folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules[prefix + name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))
        if prefix:  # other folders have modules of these names, too
            for other in set(sys.modules) - before - {prefix + name}:
                if Path(getattr(sys.modules[other], "__file__", None) or "/").parent == folder:
                    del sys.modules[other]
        sys.modules.update(hidden)
