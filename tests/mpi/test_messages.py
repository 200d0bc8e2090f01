"""Messages of generated functions on real ranks: any elements, all modes, errors that all ranks agree on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.programs.loop_ir.messages import compiled
from tests.programs.loop_ir.rings import ROWS, buffered_burst, elements, on_grid, ring, steps
from tiramisu_py.algorithm import types as ty
from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.program.statement import SendMode
from tiramisu_py.toolchain.calls.communicators import as_c_communicator
from tiramisu_py.toolchain.compilers import library
from tiramisu_py.toolchain.compilers.mpi import mpi4py

C = 6


def indices() -> dict[str, list[tuple[int, int]]]:
    """The elements of each message, in order."""
    rows, columns = range(ROWS), range(C)
    return {
        "one": [(2, 1)],
        "row": [(1, j) for j in columns],
        "column": [(i, 1) for i in rows],
        "all": [(i, j) for i in rows for j in columns],
        "across": [(i, j) for j in columns for i in rows],
        "spread": [(2 * i, 2 * j) for i in range(3) for j in range((C + 1) // 2)],
        "backwards": [(4 - i, j) for i in rows for j in columns],
        "none": [],
        "chequered": [(i, j) for i in rows for j in columns if (i + j) % 2 == 0],
        "triangle": [(i, j) for i in rows for j in range(C - i)],
        "columns": [(i, 2 * j) for j in range(2) for i in rows],
    }


def held(rank: int, dtype: type = np.float32) -> np.ndarray:
    """What a rank passes."""
    return (np.arange(ROWS * C).reshape(ROWS, C) % 11 + 13 * rank).astype(dtype)


def check(kernel, source: str, target: str, dtype: type = np.float32) -> None:
    MPI = mpi4py()
    comm = MPI.COMM_WORLD
    got = kernel(held(comm.rank, dtype))
    want = np.zeros((ROWS, C), dtype)
    before = held((comm.rank - 1) % comm.size, dtype)
    for taken, stored in zip(indices()[source], indices()[target], strict=True):
        want[stored] = before[taken]
    np.testing.assert_array_equal(got, want)


@pytest.mark.mpi(4, everywhere=True)
def test_elements_that_lie_anywhere_arrive_in_order():
    pairs = [(name, name) for name in elements()]
    pairs += [("all", "across"), ("across", "backwards"), ("chequered", "chequered"), ("column", "column")]
    for n, (sent, received) in enumerate(pairs):
        check(compiled(ring(elements()[sent], elements()[received], name=f"ring{n}")), sent, received)


@pytest.mark.mpi(4, everywhere=True)
def test_large_messages_are_split_into_larger_types(monkeypatch):
    """With a limit of 3 elements to a count, everything takes the way that messages beyond 2**31 elements take."""
    monkeypatch.setattr(library, "STRICT", (*library.STRICT, "-DTM_MPI_MOST=3"))
    for name in ("row", "all", "across", "backwards", "chequered", "spread"):
        for mode in (SendMode.STANDARD, SendMode.BUFFERED):
            function = ring(elements()[name], elements()[name], name=f"split_{name}", mode=mode)
            kernel = compiled(function)
            assert "-DTM_MPI_MOST=3" in kernel.recipe.flags
            check(kernel, name, name)


@pytest.mark.mpi(4, everywhere=True)
@pytest.mark.parametrize("mode", SendMode)
def test_each_mode_and_nonblocking_and_persistent_messages(mode):
    MPI = mpi4py()
    check(compiled(ring(elements()["column"], elements()["column"], mode=mode)), "column", "column")
    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    for persistent in (False, True):
        kernel = compiled(steps(persistent, mode))
        for count in (0, 1, 5):
            got = kernel(np.full(C, 1.0 + rank, np.float32), T=count)
            row = np.arange(size) + 1.0
            for _ in range(count):
                row = row + np.roll(row, 1)
            np.testing.assert_array_equal(got, np.full(C, row[rank], np.float32))


@pytest.mark.mpi(4, everywhere=True)
def test_buffered_messages_need_no_buffer_of_the_caller_and_leave_that_alone():
    MPI = mpi4py()
    comm, columns = MPI.COMM_WORLD, 20_000
    kernel = compiled(buffered_burst(100))
    own = bytearray(1000 + MPI.BSEND_OVERHEAD)
    MPI.Attach_buffer(own)
    given = np.random.default_rng(comm.rank).random((100, columns), dtype=np.float32)
    got = kernel(given)
    before = np.random.default_rng((comm.rank - 1) % comm.size).random((100, columns), dtype=np.float32)
    np.testing.assert_array_equal(got, before)
    assert len(MPI.Detach_buffer()) == len(own)


@pytest.mark.mpi(4, everywhere=True)
def test_every_type_of_element():
    for dtype in (ty.int8, ty.uint16, ty.int64, ty.float64, ty.bool_, ty.bfloat16):
        function = ring(elements()["chequered"], elements()["chequered"], dtype=dtype, name=f"ring_{dtype.name}")
        check(compiled(function), "chequered", "chequered", dtype.numpy)


@pytest.mark.mpi(6, everywhere=True)
def test_a_grid_gives_coordinates_and_ranks_beyond_it_do_nothing():
    MPI = mpi4py()
    comm = MPI.COMM_WORLD
    kernel = compiled(on_grid())
    first, second = divmod(comm.rank, 2)
    got = kernel(np.full(C + first, comm.rank, np.float32), C=C, P=2)
    if comm.rank < 4:
        np.testing.assert_array_equal(got, np.full(C + first, 2 * first + 1 - second, np.float32))
    else:
        assert got.size == 0
    got = kernel(np.full(C + first, comm.rank, np.float32), P=3)  # C follows from the shape
    np.testing.assert_array_equal(got, np.full(C + first, 2 * first + 1 - second, np.float32))
    with pytest.raises(ArgumentError, match=r"number of ranks depends on P.*give P="):
        kernel(np.full(C + first, comm.rank, np.float32))


@pytest.mark.mpi(6)  # as many as another test needs: they share a launch
def test_what_is_wrong_on_one_rank_is_raised_on_all():
    MPI = mpi4py()
    comm = MPI.COMM_WORLD
    four = comm.Split(max(0, comm.rank - 3))
    kernel = compiled(ring(elements()["row"], elements()["row"]))
    if comm.rank >= 4:
        with pytest.raises(ArgumentError, match=r"ring needs 4 ranks, and the communicator has 1: mpirun -n 4"):
            kernel(held(0), comm=four)
        return
    wrong = held(0).astype(np.float64) if comm.rank == 2 else held(0)
    with pytest.raises(ArgumentError, match=r"image has dtype float64, not float32.*\(on rank 2\)"):
        kernel(wrong, comm=four)
    longer = np.zeros((ROWS, C + comm.rank), np.float32)
    with pytest.raises(KernelError, match=r"C is 6 on rank 0 and 7 on rank 1, but must be the same on all ranks"):
        kernel(longer, comm=four)
    check_again = kernel(held(four.rank), comm=four)
    assert check_again.shape == (ROWS, C)
    four.Free()
    with pytest.raises(ArgumentError, match="comm is a communicator of mpi4py"):
        kernel(held(0), comm=3)
    with pytest.raises(ArgumentError, match="comm is a communicator of mpi4py"):
        kernel(held(0), comm=MPI.COMM_NULL)


@pytest.mark.mpi(4)
def test_the_c_function_returns_the_same_error_on_all_ranks():
    MPI = mpi4py()
    comm = MPI.COMM_WORLD
    kernel = compiled(steps(False))
    entry, words = kernel._c_function.entry, kernel._c_function.last_error
    row = np.zeros(8, np.float32)
    out = np.zeros(8, np.float32)
    code = entry(as_c_communicator(comm), 2**44 if comm.rank == 1 else 8, 1, row.ctypes.data, out.ctypes.data)
    assert code == 8, words()
    code = entry(as_c_communicator(comm), 8, 1, row.ctypes.data, None if comm.rank == 3 else out.ctypes.data)
    assert code == 3
    assert words() == b"steps: by is NULL, but has elements (on rank 3)"
