"""Messages in C: what is emitted, that each MPI and each way to compile takes it without a warning, what is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.backends.building import loop, number, size
from tests.backends.mpi.building import Q, box, on_ranks, post, requests, wait, write
from tests.backends.mpi.programs import C, buffered_burst, elements, on_grid, ring, steps
from tiramisu_py.backends.c import LIBRARIES, REQUIRED, THREADS, emit
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.lower.ir import LoopFunction
from tiramisu_py.program.loops import Parallel
from tiramisu_py.program.statement import SendMode

PLACES = [Path(sys.executable).with_name("mpicc"), *(shutil.which(f"mpicc{e}") for e in ("", ".openmpi", ".mpich"))]
MPICC = sorted({str(Path(place).absolute()) for place in PLACES if place and Path(place).exists()})
STRICT = ("-Wall", "-Wextra", "-Werror")


def functions() -> dict[str, LoopFunction]:
    """A function for everything that is emitted."""
    rings = {name: ring(each, each, name=f"ring_{name}") for name, each in elements().items()}
    every = [steps(persistent, mode) for mode in SendMode for persistent in (False, True)]
    many = {f"steps{n}": replace(function, name=f"steps{n}") for n, function in enumerate(every)}
    modes = {f"{mode.value}_ring": ring(elements()["row"], elements()["row"], mode=mode) for mode in SendMode}
    threads = {"threads": ring(elements()["row"], elements()["row"], parallel=True)}
    return {**rings, **many, **modes, **threads, "burst": buffered_burst(3), "on_grid": on_grid()}


@pytest.mark.skipif(not MPICC, reason="no mpicc on this machine")
@pytest.mark.parametrize("mpicc", MPICC)
@pytest.mark.parametrize("compiler", [c for c in ("gcc", "clang") if shutil.which(c)])
def test_every_mpi_compiles_all_without_a_warning(tmp_path, mpicc, compiler):
    """All functions in as few runs of the compiler as there are ways to compile them."""
    show = subprocess.run([mpicc, "-show"], capture_output=True, text=True, check=True).stdout.split()[1:]
    files = []
    for name, function in functions().items():
        folder = write(function, tmp_path / name)
        files.append(str(next(folder.glob(f"{function.name}.c"))))
    flags = [f for f in show if not f.startswith(("-l", "-L", "-Wl"))]
    for more in ((), THREADS):
        for file in files:
            command = [compiler, *REQUIRED, *STRICT, *flags, *more, "-fsyntax-only", file]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    file = Path(files[0])
    command = [
        compiler,
        *REQUIRED,
        *STRICT,
        *THREADS,
        "-O3",
        "-fPIC",
        "-shared",
        file,
        "-o",
        "lib.so",
        *show,
        *LIBRARIES,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_function_takes_a_communicator_and_agrees_before_its_first_message():
    text = emit(steps(False))
    assert "int steps(MPI_Comm comm, int64_t C, int64_t T, const float *image, float *by);" in text["steps.h"]
    assert "#include <mpi.h>" in text["steps.h"]
    assert {"tm_mpi.h", "tm_runtime.h"} < set(text)
    body = text["steps.c"].partition("int steps(MPI_Comm comm")[2]
    order = ["tm_mpi_begin", "steps_check(&mpi, C, T, image, by)", "tm_allocate", "tm_mpi_agree", "return wrong;",
             "MPI_Isend", "MPI_Irecv", "tm_mpi_wait", "tm_mpi_end", "return 0;"]  # fmt: skip
    found = [body.index(words) for words in order]
    assert found == sorted(found)
    assert "return steps_fail" not in body


@pytest.mark.parametrize(
    ("mode", "call"), [(SendMode.STANDARD, "MPI_Send"), (SendMode.SYNCHRONOUS, "MPI_Ssend"),
                       (SendMode.BUFFERED, "tm_mpi_send_buffered")],
)  # fmt: skip
def test_modes_of_blocking_sends(mode, call):
    text = emit(ring(elements()["one"], elements()["one"], mode=mode))["ring.c"]
    assert re.search(rf"{call}\b", text)
    assert text.count("MPI_Irecv, &by[2*C + 1], 1, MPI_FLOAT, (rank0 + 3)%4, 3, &pending)") == 1


def test_persistent_requests_are_made_once_and_freed():
    text = emit(steps(True, SendMode.SYNCHRONOUS))["steps.c"]
    assert text.count("MPI_Ssend_init,") == text.count("MPI_Recv_init,") == 1
    assert text.count("MPI_Start(&pending[") == 2
    assert text.count("if (pending[0] == MPI_REQUEST_NULL)") == 1
    assert text.count("tm_mpi_forget_requests(&mpi, ") == 1
    assert "tm_mpi_forget_requests" not in emit(steps(False))["steps.c"]


def test_an_array_called_as_something_of_the_runtime():
    function = on_ranks("f", "mpi comm", (2,), [], loop("idle", 2, post(True, "MPI_COMM_WORLD", box(0), 0)))
    with pytest.raises(KeyError):
        emit(function)
    text = emit(on_ranks("f", "mpi idle comm", (2,), []))["f.h"]
    assert "int f(MPI_Comm comm, int64_t mpi_, int64_t idle_, int64_t comm_);" in text


def test_what_is_refused():
    parallel = loop("i", 2, post(True, "image", box(0, 0), Q), tag=Parallel())
    ring_ = ring(box(0, 0), box(0, 0))
    with pytest.raises(UnsupportedError, match="message_send is inside a loop that runs on several threads"):
        emit(replace(ring_, body=parallel))
    waits = requests("pending", 1, loop("i", 2, wait("pending", 0, 1), tag=Parallel()))
    with pytest.raises(UnsupportedError, match="message_wait is inside a loop that runs on several threads"):
        emit(replace(ring_, body=waits))
    with pytest.raises(UnsupportedError, match="make it nonblocking"):
        emit(replace(ring_, body=post(True, "image", box(0, 0), Q, persistent=True)))
    with pytest.raises(UnsupportedError, match="tag 32767"):
        emit(replace(ring_, body=post(True, "image", box(0, 0), Q, 32767)))


def test_many_requests_are_allocated_and_that_is_agreed_on():
    body = requests("pending", C, wait("pending", 0, C))
    text = emit(on_ranks("many", "C", (2,), [], body))["many.c"]
    assert 'TM_NEEDED(many, "of requests pending", tm_mpi_requests(C))' in text
    assert text.index("tm_mpi_requests") < text.index("tm_mpi_agree")
    inner = loop("t", size("C"), requests("pending", size("C"), wait("pending", 0, number(1))))
    text = emit(on_ranks("many", "C", (2,), [], inner))["many.c"]
    assert 'tm_mpi_give_up(&mpi, "there is no memory for the temporary array of requests pending")' in text
    assert text.index("tm_mpi_agree") < text.index("tm_mpi_requests")
