"""Messages in C: what is emitted, that each MPI and each way to compile takes it without a warning, what is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.programs.loop_ir.messages import Q, box, on_ranks, post, requests, wait, write
from tests.programs.loop_ir.rings import (
    BEFORE,
    NEXT,
    RANKS,
    ROWS,
    C,
    buffered_burst,
    elements,
    on_grid,
    ring,
    steps,
)
from tests.programs.loop_ir.short_names import given, loop, number, result, size, var
from tiramisu_py.backends import emit
from tiramisu_py.backends.c import LIBRARIES, REQUIRED, THREADS
from tiramisu_py.errors import UnsupportedError
from tiramisu_py.ir import LoopFunction
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
    growing = box(0, 0, sides=((var("t"), (1, 0)),))
    often = {"often": exchanged_often(elements()["column"], elements()["column"]),
             "growing": exchanged_often(growing, growing)}  # fmt: skip
    return {**rings, **many, **modes, **threads, **often, "burst": buffered_burst(3), "on_grid": on_grid()}


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


def test_rows_are_counted_where_they_are_sent():
    for name, count in {"row": "C", "all": "5*C", "one": "1"}.items():
        text = emit(ring(elements()[name], elements()[name]))["ring.c"]
        sends = re.findall(r"TM_SEND\(.*\);", text)
        assert len(sends) == 1
        assert re.fullmatch(
            rf'TM_SEND\("message_send", MPI_Send, &image\[\S.*\], {re.escape(count)}, MPI_FLOAT, .*, 3\);', sends[0]
        )
        assert "TM_MPI_BOX" not in text and "TM_ELEMENTS" not in text


def exchanged_often(sent, received, *more):
    """Messages in a time loop."""
    halves = [
        post(True, "image", sent, NEXT, request=("one", 0)),
        post(False, "by", received, BEFORE, request=("two", 0)),
    ]
    waits = [wait("one", 0, 1), wait("two", 0, 1)]
    body = requests("one", 1, requests("two", 1, loop("t", C, *halves, *waits, *more)))
    arrays = [given("image", ROWS, C), result("by", ROWS, C)]
    return on_ranks("often", "C", (RANKS,), arrays, body)


def test_a_type_that_is_the_same_each_time_is_made_once_where_the_function_begins():
    body = emit(exchanged_often(elements()["column"], elements()["column"]))["often.c"].partition("int often(")[2]
    made = 'TM_ELEMENTS tm_message = TM_MPI_BOX("message_send", float, MPI_FLOAT, TM_MPI_SIDE(float, 5, C));'
    assert body.count("TM_ELEMENTS") == body.count(made) == 1
    order = [
        "tm_mpi_agree",
        "return wrong;",
        made,
        "for (int64_t t",
        "MPI_Isend, &image[1], tm_message.count",
        "MPI_Irecv",
    ]
    found = [body.index(words) for words in order]
    assert found == sorted(found)


def test_a_type_that_is_another_one_each_time_is_made_where_it_is_sent():
    growing = box(0, 0, sides=((var("t"), (1, 0)),))
    body = emit(exchanged_often(growing, growing))["often.c"].partition("int often(")[2]
    assert body.count("TM_ELEMENTS tm_elements = ") == 2
    assert body.index("for (int64_t t") < body.index("TM_ELEMENTS")


def test_waits_that_follow_each_other_are_one():
    text = emit(exchanged_often(box(0, 0), box(0, 0), wait("one", 0, 1)))["often.c"]
    assert text.count("TM_WAIT(") == 1
    assert 'TM_WAIT("message_wait", &one, &two, &one);' in text
    assert text.count("MPI_Request ") == text.count("= MPI_REQUEST_NULL;") == 2


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
    with pytest.raises(UnsupportedError, match="message_send is inside a parallel loop, but only one thread may send"):
        emit(replace(ring_, body=parallel))
    waits = requests("pending", 1, loop("i", 2, wait("pending", 0, 1), tag=Parallel()))
    with pytest.raises(UnsupportedError, match="message_wait is inside a parallel loop, but only one thread may wait"):
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
