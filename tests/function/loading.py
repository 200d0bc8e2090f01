"""Loads files of `Function.save`, in a process of its own, and prints what each function becomes, as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import tiramisu_py as tm

ROOT = Path(__file__).resolve().parent.parent.parent


def emitted(f: tm.Function) -> Mapping[str, str]:
    """The commands of a function, and its source text, or why it has none."""
    try:
        source = f.source()
    except tm.LegalityError as error:
        source = {"refused": str(error)}
    return {**source, "commands": "\n".join(map(str, f.commands))}


def elsewhere(paths: Sequence[Path]) -> list[Mapping[str, str]]:
    """What is emitted for each file by a fresh process."""
    command = [sys.executable, "-m", "tests.function.loading", *map(str, paths)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    found: list[Mapping[str, str]] = json.loads(run.stdout)
    return found


if __name__ == "__main__":
    json.dump([emitted(tm.load(path)) for path in sys.argv[1:]], sys.stdout)
