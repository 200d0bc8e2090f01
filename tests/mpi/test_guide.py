"""What the guide's chapter on ranks runs with mpirun: its scripts and its program in C, word for word."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mpi.launching import ROOT, Implementation, each

PAGE = ROOT / "docs" / "guide" / "08-ranks.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MPI = each()
pytestmark = pytest.mark.skipif(not MPI, reason="no MPI on this machine")


def block(language: str, words: str) -> str:
    """The one block of the page in a language that has some words in it."""
    (found,) = [text for kind, text in BLOCK.findall(PAGE.read_text()) if kind == language and words in text]
    return found


def script(folder: Path, name: str, words: str) -> Path:
    """A file with the first program of the page, and what the page says to put below it."""
    path = folder / name
    path.write_text(block("python", "def blur():") + "\n" + block("", words))
    return path


@pytest.mark.parametrize("mpi", MPI)
def test_the_script_of_the_guide_is_right_on_its_ranks(mpi: Implementation, tmp_path: Path) -> None:
    path = script(tmp_path, "blur.py", "comm.gather(result)")
    done = mpi.run(4, [sys.executable, path], cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "right, on 4 ranks" in done.stdout
    done = mpi.run(3, [sys.executable, path], cwd=tmp_path)
    assert done.returncode != 0
    assert "blur needs 4 ranks, and the communicator has 3: mpirun -n 4" in done.stdout


@pytest.mark.parametrize("mpi", MPI[:1])
def test_what_the_guide_says_of_a_wrong_argument_is_what_every_rank_says(mpi: Implementation, tmp_path: Path) -> None:
    path = script(tmp_path, "blur.py", "comm.gather(result)")
    text = path.read_text().replace("result = kernel(mine,", "result = kernel(picture if comm.rank == 2 else mine,")
    path.write_text(text)
    done = mpi.run(4, [sys.executable, path], cwd=tmp_path)
    assert done.returncode != 0
    said = block("text", "on rank 2").strip()
    assert said in done.stdout


@pytest.mark.parametrize("mpi", MPI)
def test_the_program_in_c_of_the_guide_runs(mpi: Implementation, tmp_path: Path) -> None:
    done = mpi.run(1, [sys.executable, script(tmp_path, "export.py", ".export(")], cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    (tmp_path / "main.c").write_text(block("c", "MPI_Init"))
    make, link, _ = block("console", "make -C blur").splitlines()
    beside = Path(mpi.mpirun).with_name("mpicc")
    mpicc = str(beside) if beside.exists() else "mpicc"
    for command in ([*make.split(), f"CC={mpicc}", "clean", "all"], [mpicc, *link.split()[1:]]):
        built = subprocess.run(command, cwd=tmp_path, env=mpi.environment, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr
    done = mpi.run(4, [tmp_path / "main"], cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    said = dict(re.findall(r"rank (\d): (\S+) in its last row", done.stdout))
    # rows hold their number, and a blur keeps what is linear; the last row of all is not computed
    assert said == {"0": "24", "1": "49", "2": "74", "3": "0"}
