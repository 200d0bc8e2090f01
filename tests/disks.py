"""Folders on disks, for tests of files."""

from __future__ import annotations

from pathlib import Path

import pytest


def on_disk(folder: Path) -> str:
    """The name of a folder on a disk: skips the test if it is in memory."""
    mounts = Path("/proc/self/mounts")
    if mounts.exists():
        held = [line.split()[1:3] for line in mounts.read_text().splitlines()]
        around = [each for each in held if folder.resolve().is_relative_to(each[0])]
        if max(around, key=lambda each: len(each[0]), default=["", ""])[1] in ("tmpfs", "ramfs"):
            pytest.skip(f"{folder} is in memory on this machine")
    return str(folder)
