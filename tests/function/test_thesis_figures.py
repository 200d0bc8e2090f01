"""The cooperative blur beside the thesis's: its schedule, and the text that is generated, are no longer.

"Extending the Tiramisu compiler with distributed, GPU and cooperative execution": figure 1-5 is the program by hand,
figures 1-7 to 1-9 are its schedule. Error checks are left out there, and so is the check of arguments here; blank
lines and comments are not counted.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm

#: The numbered lines of figure 1-5: both kernels and `blur_cooperative`, the "// GPU" on a line of code among them.
BY_HAND = 98
#: The numbered lines of figures 1-7 (threads and vectors), 1-8 (the GPU and its copies) and 1-9 (both together), the
#: last without its two comments.
FIGURES = 6 + 20 + 3

R, C, G = tm.params("R C G")
r, c, r_chunk = tm.iters("r c r_chunk")


def algorithm() -> tuple[tm.Function, tm.Input, tm.Computation, tm.Computation]:
    """Figure 1-6."""
    f = tm.Function("blur", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    image = f.input("image", tm.float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: R, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    return f, image, bx, by


def in_a_process(f: tm.Function, image: tm.Input, bx: tm.Computation, by: tm.Computation) -> None:
    for stage in (bx, by):
        stage.partition(r, [G], [tm.gpu(tile=(4, 64)), tm.cores(vector=16)])
    f.derive_transfers()


def in_chunks(f: tm.Function, image: tm.Input, bx: tm.Computation, by: tm.Computation) -> None:
    by.partition(r, [G], [tm.gpu(tile=(4, 64), chunk=32), tm.cores(vector=16)])
    bx.inline()
    f.derive_transfers(pipeline=r_chunk)


def on_ranks(f: tm.Function, image: tm.Input, bx: tm.Computation, by: tm.Computation) -> None:
    """As in the figure each rank is given the rows that it reads: no messages."""
    by.partition(r, [G], [tm.gpu(tile=(4, 64), ranks=0), tm.cores(vector=16, ranks=1)])
    bx.inline()
    by.distribute_array([r, c], rank=tm.pieces(r, [G]))
    f.derive_transfers()


Schedule = Callable[[tm.Function, tm.Input, tm.Computation, tm.Computation], None]
SCHEDULES = [in_a_process, in_chunks, on_ranks]


def scheduled(schedule: Schedule) -> tm.Function:
    f, image, bx, by = algorithm()
    schedule(f, image, bx, by)
    return f


def code(text: str) -> list[str]:
    """Its lines, but for blank ones and comments."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("//")]


def generated(f: tm.Function) -> list[str]:
    """The lines of the function `blur` and of its kernels."""
    source = f.source()
    (host,) = re.findall(r"^int blur\(.*?^\}", source["blur.c"], re.MULTILINE | re.DOTALL)
    kernels = re.findall(r"^TM_KERNEL .*?^\}", source["blur.cu"], re.MULTILINE | re.DOTALL)
    assert len(kernels) == len(f.show("lowered").gpus.kernels) and "tm_gpu_launch" in host and "#pragma omp" in host
    return code("\n".join([host, *kernels]))


def doubled_guards(lines: list[str]) -> list[str]:
    """The conditions that a statement has, and the one before it."""
    found, open_, last = [], [""], ""
    for line in lines:
        if line == "}":
            last = open_.pop()
            continue
        if line.startswith("if (") and line == last:
            found.append(line)
        if line.endswith("{"):
            open_.append(line)
        last = ""
    return found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_schedule_is_no_longer_than_the_figures(schedule: Schedule) -> None:
    commands = code(inspect.getsource(schedule))[1:]
    assert commands[-1].startswith("f.derive_transfers(")
    assert len(commands) <= FIGURES


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_generated_program_is_shorter_than_the_figure_by_hand(schedule: Schedule) -> None:
    f = scheduled(schedule)
    assert f.check().ok, f.check()
    assert len(generated(f)) < BY_HAND


def test_guards_blocks_and_parameters_that_say_nothing_are_not_generated() -> None:
    for schedule in SCHEDULES:
        lines = generated(scheduled(schedule))
        opened = [line for line in lines if line.endswith("{")]
        assert "{" not in opened and not any(line.startswith("(void)") for line in lines)
        assert not doubled_guards(lines)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_program_that_is_counted_blurs(schedule: Schedule) -> None:
    f = scheduled(schedule)
    picture = np.random.default_rng(0).random((42, 71), dtype=np.float32)
    distributed = schedule is on_ranks
    kernel = None if distributed else f.compile(device="simulator")
    for rows in (0, 7, 40):
        found = f.simulate(image=picture, G=rows) if kernel is None else kernel(picture, G=rows)
        np.testing.assert_array_equal(found, f.evaluate(image=picture, G=rows))
