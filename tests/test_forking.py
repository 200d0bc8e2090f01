"""A fork that runs a script ends, prints and fails as a new process of Python does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fork_client
from tests.forking import address, run, used

SCRIPT = """
import ctypes, os, sys
above = os.path.dirname(os.path.abspath(sys.path[0]))
print(__name__, os.getcwd(), above, os.environ.get("GIVEN"), sys.argv[1], flush=True)
match sys.argv[1]:
    case "raise": raise ValueError("no good")
    case "exit": sys.exit(7)
    case "say": sys.exit("went wrong")
    case "crash": ctypes.string_at(0)
    case "hang": sys.stdin.read(), __import__("time").sleep(100)
    case "work": sum(range(10**7))
"""
CLIENT = [sys.executable, "-I", "-S", fork_client.__file__]


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


def test_a_text_and_a_module_are_run_too(tmp_path: Path) -> None:
    (tmp_path / "below.py").write_text("import sys; print(__name__, sys.argv[1:])")
    assert run(["-m", "below", "x"], cwd=tmp_path).stdout == "__main__ ['x']\n"
    text = "import sys, pickle\nclass A: pass\nprint(__name__, sys.argv, len(pickle.dumps(A())) > 0)"
    assert run(["-c", text, "x"], cwd=tmp_path).stdout == "__main__ ['-c', 'x'] True\n"


def test_what_it_takes_is_measured_with_what_it_starts(script: Path) -> None:
    run([script, "pass"])
    before = used()
    run([script, "work"])
    own = used() - before
    run(["-c", f"import subprocess, sys; subprocess.run([sys.executable, {str(script)!r}, 'work'])"])
    assert own > 0.05 and used() - before - own > 0.05


@pytest.mark.parametrize(("how", "code"), [("pass", 0), ("raise", 1), ("exit", 7), ("crash", -signal.SIGSEGV)])
def test_a_program_that_stands_for_it_ends_as_it_does(script: Path, tmp_path: Path, how: str, code: int) -> None:
    command = [*CLIENT, address(), str(script), how]
    done = subprocess.run(command, cwd=tmp_path, env={"GIVEN": "here"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, f"__main__ {tmp_path} {tmp_path} here {how}\n")
    assert how != "raise" or "ValueError: no good" in done.stderr


def test_it_has_what_its_program_was_given_open_under_the_same_numbers() -> None:
    first, last = os.pipe(), os.pipe()
    text = f"import os, sys; os.write({last[1]}, os.read({first[0]}, 9)[::-1]); print(sys.stdin.read())"
    os.write(first[1], b"abc")
    given = [first[0], last[1]]
    command = [*CLIENT, address(), "-c", text]
    done = subprocess.run(command, input="said", capture_output=True, text=True, pass_fds=given, check=True)
    assert os.read(last[0], 9) == b"cba" and done.stdout == "said\n"
    for number in (*first, *last):
        os.close(number)


SLEEPING = """
import os, subprocess
with subprocess.Popen(["sleep", "100"]) as child:
    print(os.getpid(), child.pid, flush=True)
"""


@contextlib.contextmanager
def sleeping() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A program that stands for a fork that has started something, and the numbers of both."""
    with subprocess.Popen([*CLIENT, address(), "-c", SLEEPING], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        yield program, [int(word) for word in program.stdout.readline().split()]


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("ended", [signal.SIGTERM, signal.SIGKILL])
def test_it_is_ended_with_all_that_it_has_started_when_its_program_is(ended: signal.Signals) -> None:
    with sleeping() as (program, processes):
        assert all(map(is_running, processes))
        program.send_signal(ended)
        program.wait(60)
        for _ in range(1000):
            if not any(map(is_running, processes)):
                return
            time.sleep(0.05)
    pytest.fail("they still run")


def test_several_run_side_by_side_and_each_ends_by_itself(script: Path) -> None:
    with sleeping() as (one, _), sleeping() as (other, processes):
        assert run([script, "exit"]).returncode == 7
        os.kill(processes[0], signal.SIGUSR1)
        assert other.wait(60) == -signal.SIGUSR1
        assert one.poll() is None
        one.kill()
