"""Starts a benchmark, or a process of one, by its name: `python scripts/benchmarks cpu --only blur`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def there(path: Path) -> bool:
    """Whether a room with a main program, or a module, is at a path without its ending."""
    return (path / "__main__.py").exists() or path.with_suffix(".py").exists()


def main() -> None:
    """Run the room or the module that the first argument names; the others are its own."""
    if len(sys.argv) == 1 or not there(HERE / sys.argv[1].replace(".", "/")):
        raise SystemExit("which benchmark? scripts/bench lists them")
    others = (path for path in sys.path if Path(path or ".").resolve() != HERE)
    sys.path[:] = [str(HERE.parent), str(HERE.parents[1]), *others]
    del sys.argv[0]
    runpy.run_module(f"{HERE.name}.{sys.argv[0]}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
