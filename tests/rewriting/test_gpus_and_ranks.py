"""Steps on GPUs and ranks, with the commands that other functions take: the ten programs of `scripts/bench gradients`.

Loops over values are blocks and threads of the simulator's GPU; rows of a field are on three ranks, whose halos are
derived, forwards and backwards.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from benchmarks.gpu import gradients
from benchmarks.gradients.on_gpus import on_gpu
from benchmarks.gradients.programs import PROGRAMS
from tests.mpi.shared_work import ready
from tests.oracle.judges.rank_arrays import agreed, ran_on_ranks
from tests.rewriting.judging import listed
from tests.selection import covering
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.mpi import mpi4py
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

i, j, i1, q = tm.iters("i j i1 q")
#: The threads of a block, and the rows of a rank: neither divides all sizes.
THREADS, ROWS, RANKS = 4, 2, 3


def step_and_arguments(name: str) -> tuple[tm.Function, dict[str, Any]]:
    program = PROGRAMS[name]
    f, step = program.make(), tm.vjp(program.make(), wrt=program.wrt).step
    given = program.arguments(program.small)
    (value,) = listed(f.evaluate(**given))
    return step, {**given, **program.weights({f.algorithm.outputs[0]: value})}


def on_ranks(step: tm.Function) -> None:
    """Put rows of each computation, and of each field that the caller has, on the ranks in turn."""
    for name, c in step.algorithm.computations.items():
        if "i" in c.iterators:
            for stage in (step[name].init, step[name].update) if c.is_reduction else (step[name],):
                stage.split(i, ROWS, q, i1)
                stage.tag_distribute(q)
    inputs = [name for name, each in step.algorithm.inputs.items() if str(each.shape[0]) == "N"]
    outputs = [each for each in step.algorithm.outputs if "i" in step.algorithm.computations[each].iterators]
    for name in (*inputs, *outputs):
        step[name].distribute_array([i, j], rank=i // ROWS)
    step.derive_transfers()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_on_a_gpu_gives_the_values_of_evaluate(name: str) -> None:
    step, given = step_and_arguments(name)
    on_gpu(step, THREADS)
    assert step.check().ok
    expected = listed(step.evaluate(**given))
    for seed in range(10):
        found = listed(step.compile(device="simulator", sanitize=True, seed=seed)(**given))
        for mine, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_steps_on_arrays_of_a_gpu_are_right_where_gpu_checks_runs_them() -> None:
    rows = gradients.checked("simulator")
    assert [row[0] for row in rows] == [*gradients.MEASURED] and {row[2] for row in rows} == {"right"}


def test_weights_and_tangents_are_on_the_gpu_that_has_the_arrays() -> None:
    f = PROGRAMS["layer_norm"].make(tm.GPU_MEMORY)
    assert {tm.vjp(f).step.program.buffers[name].memory for name in ("a", "d_out")} == {tm.GPU_MEMORY}
    assert tm.jvp(f).program.buffers["t_a"].memory == tm.GPU_MEMORY
    x = f.input("here", tm.float32, [tm.params("N")[0]])
    f.outputs(f.computation("sums", {i: tm.params("N")[0]}, x[i] * f["a"][i, 0]), replace=True)
    assert tm.vjp(f, wrt=["a", "here"]).step.program.buffers["d_sums"].memory == tm.HOST


@pytest.mark.parametrize(("name", "architecture"), covering(list(PROGRAMS), [80, 90]))
def test_no_kernel_of_a_step_needs_local_memory(name: str, architecture: int) -> None:
    step, _ = step_and_arguments(name)
    on_gpu(step, THREADS)
    compiler = find_nvcc(open_cache())
    if isinstance(compiler, str):
        pytest.skip(compiler)
    flags = ("-std=c++17", "--fmad=false", "-Xptxas", "-v")
    _, words = compiler.compile(f"{step.name}.cu", step.source(), Architecture(architecture), flags)
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", words)
    assert frames and set(frames) == {("0", "0", "0")}, words


@pytest.mark.parametrize("name", ["heat", "wave"])
def test_halos_of_a_step_are_derived_forwards_and_backwards(name: str) -> None:
    step, given = step_and_arguments(name)
    on_ranks(step)
    report = step.check()
    assert report.ok and report.bits == "bits preserved"
    sent = {each.exchange for each in step.cost("communication", **PROGRAMS[name].small).channels()}
    assert {"u_to_next", "u_to_previous", "d_u_to_next", "d_u_to_previous"} <= sent
    ran = ran_on_ranks(step, seed=1, **given)
    assert not agreed(step, ran.outputs, **given)


@pytest.mark.mpi(RANKS)
@pytest.mark.parametrize("name", ["heat", "wave"])
def test_a_step_is_right_on_ranks(name: str) -> None:
    step, given = step_and_arguments(name)
    on_ranks(step)
    made = ready(step, given)
    found = listed(made.kernel(**made.given, comm=mpi4py().COMM_WORLD))
    for (array, part), own in zip(made.wanted.items(), found, strict=True):
        np.testing.assert_array_equal(own, part, err_msg=array)
