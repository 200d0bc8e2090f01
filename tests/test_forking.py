"""A fork that runs a script ends, prints and fails as a new process of Python does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.forking import run

SCRIPT = """
import ctypes, os, sys
print(__name__, os.getcwd(), os.path.dirname(os.path.abspath(sys.path[0])), os.environ.get("GIVEN"), sys.argv[1])
match sys.argv[1]:
    case "raise": raise ValueError("no good")
    case "exit": sys.exit(7)
    case "say": sys.exit("went wrong")
    case "crash": ctypes.string_at(0)
    case "hang": sys.stdin.read(), __import__("time").sleep(100)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "below" / "script.py"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [("pass", 0, ""), ("raise", 1, "ValueError: no good"), ("exit", 7, ""), ("say", 1, "wrong")],
)
def test_it_ends_as_the_script_does(script: Path, tmp_path: Path, how: str, code: int, said: str) -> None:
    done = run([script, how], cwd=tmp_path, env={"GIVEN": "here"})
    assert (done.returncode, done.stdout) == (code, f"__main__ {tmp_path} {tmp_path} here {how}\n")
    assert said in done.stderr


def test_one_that_crashes_is_seen(script: Path) -> None:
    assert run([script, "crash"]).returncode < 0


def test_one_that_hangs_is_ended_and_the_next_one_runs(script: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run([script, "hang"], timeout=0.2)
    assert run([script, "pass"]).returncode == 0
