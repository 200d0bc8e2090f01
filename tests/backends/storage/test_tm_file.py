"""The runtime of files, driven by a C program, under sanitizers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.disks import on_disk
from tiramisu_py import backends

RUNTIME = Path(backends.__file__).parent / "storage"
DRIVER = Path(__file__).with_name("queues.c")


def built(folder: Path, *flags: str) -> Path:
    """The program, compiled with the runtime; skips the test if there is no gcc, or it lacks what the flags ask for."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    program = folder / "queues"
    strict = ["-std=gnu11", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}"]
    command = ["gcc", *strict, *flags, str(DRIVER), str(RUNTIME / "tm_file.c"), "-o", str(program), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and any(word in done.stderr for word in ("libtsan", "libasan", "libubsan")):
        pytest.skip("gcc has no sanitizer runtimes on this machine")
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.parametrize(
    ("flags", "how"), [(("-fsanitize=address,undefined",), ["forked"]), (("-fsanitize=thread",), [])]
)
def test_what_comes_back_is_what_went_out(flags: tuple[str, ...], how: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    done = subprocess.run(
        [built(tmp_path, *flags), on_disk(folder), *how], capture_output=True, text=True, check=False, timeout=300
    )
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer cannot run on this kernel")
    assert (done.returncode, done.stdout) == (0, "clean\n"), done.stdout + done.stderr
    assert not os.listdir(folder)


def test_a_process_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    done = subprocess.run([built(tmp_path), on_disk(folder), "killed"], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not os.listdir(folder)
