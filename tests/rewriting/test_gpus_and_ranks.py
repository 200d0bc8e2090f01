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
from benchmarks.gradients.programs import PROGRAMS
from tests.mpi.shared_work import ready
from tests.oracle.judges.rank_arrays import agreed, ran_on_ranks
from tests.rewriting.judging import listed
from tests.selection import covering
from tiramisu_py.queries import Declared, accesses, chosen_by_values
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.mpi import mpi4py
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

i, j, i1, q, block, thread = tm.iters("i j i1 q block thread")
#: The threads of a block, and the rows of a rank: neither divides all sizes.
THREADS, ROWS, RANKS = 4, 2, 3


def step_and_arguments(name: str) -> tuple[tm.Function, dict[str, Any]]:
    program = PROGRAMS[name]
    f, step = program.make(), tm.vjp(program.make(), wrt=program.wrt).step
    given = program.arguments(program.small)
    (value,) = listed(f.evaluate(**given))
    return step, {**given, **program.weights({f.algorithm.outputs[0]: value})}


def places(c: Declared, of_terms: bool) -> list[tm.Iter]:
    """The loops whose iterations are apart: those over values, but not over time, nor those that terms choose."""
    recurrent = any(each.source == c.name for each in accesses(c.expr))
    left_out = {*c.iterators[:1]} if recurrent else chosen_by_values(c) if of_terms else {}
    return [tm.Iter(each) for each in c.iterators if each not in left_out]


def on_gpu(step: tm.Function) -> None:
    """Put each computation on blocks of threads, a time step in a kernel; rows of a matrix add to places atomically."""
    for name, c in step.algorithm.computations.items():
        handle = step[name]
        stages = [(handle.init, False), (handle.update, True)] if c.is_reduction else [(handle, False)]
        for stage, of_terms in stages:
            apart = places(c, of_terms)
            space = apart or [tm.Iter(c.over[0])]
            stage.split(space[-1], THREADS, block, thread)
            combine = None if apart else tm.ATOMIC
            stage.tag_gpu(blocks=[*space[:-1][-2:], block], threads=[thread], combine=combine)
    step.derive_transfers()


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
    on_gpu(step)
    assert step.check().ok
    expected = listed(step.evaluate(**given))
    for seed in range(10):
        found = listed(step.compile(device="simulator", sanitize=True, seed=seed)(**given))
        for mine, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "architecture"), covering(list(PROGRAMS), [80, 90]))
def test_no_kernel_of_a_step_needs_local_memory(name: str, architecture: int) -> None:
    step, _ = step_and_arguments(name)
    on_gpu(step)
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
