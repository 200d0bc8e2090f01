"""Derived transfers: what each device reads and does not store itself, exactly, once, and proven."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from tests.derive.building import on_gpu
from tests.programs import Draft
from tests.proof.stories import C, N, R, T, blur, c, c0, c1, i, i0, i1, r, r0, r1, t
from tiramisu_py.algorithm.expressions import select
from tiramisu_py.algorithm.types import float32
from tiramisu_py.dependence.touches import Touches
from tiramisu_py.derive.communication import communication
from tiramisu_py.derive.transfers import derived_transfers
from tiramisu_py.program.loops import Launch
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Transfer
from tiramisu_py.schedule.transfers import with_transfer


def transfers(program: Program) -> dict[str, tuple[int | None, int | None]]:
    """The transfers of a program by name, each with its source and its target."""
    found = [s for s in program.statements.values() if s.transfer is not None]
    return {s.name: (s.transfer.source, s.transfer.target) for s in found if s.transfer}


def waits(program: Program) -> list[str]:
    return [s.name for s in program.statements.values() if s.role is Role.WAIT]


def derive(draft: Draft) -> Program:
    draft.change("derive_transfers()", lambda program: derived_transfers(program, "derive_transfers()"))
    return draft.program


def blur_on_gpu() -> Draft:
    story = blur()
    for stage in (story.p, story.q):
        stage.split(c, 64, c0, c1)
        on_gpu(story.draft, stage.name, [r, c0], [c1])
    return story.draft


def cooperative_blur() -> Draft:
    """The first 40 rows on the GPU, the others on the host; bx inlined."""
    f = Draft("blur", "R C", (R > 40) & (C >= 1))
    image = f.input("image", float32, [R + 2, C + 2])
    bx = f.computation("bx", {r: R + 2, c: C}, image[r, c] + image[r, c + 1] + image[r, c + 2])
    by = f.computation("by", {r: R, c: C}, bx[r, c] + bx[r + 1, c] + bx[r + 2, c])
    f.outputs(by)
    above, below = by.separate_at(r, [40])
    above.split(c, 64, c0, c1)
    (name,) = above.statement_names()
    on_gpu(f, name, [r, c0], [c1])
    below.split(r, 16, r0, r1)
    bx.inline()
    return f


def test_a_program_of_kernels_has_its_input_sent_and_its_output_fetched() -> None:
    f = blur_on_gpu()
    assert not f.check().ok
    program = derive(f)
    assert transfers(program) == {"image_to_gpu": (None, 0), "by_to_cpu": (0, None)}
    report = f.check()
    assert report.ok, report
    moved = communication(program, {"R": 7, "C": 70})
    assert [(m.name, m.elements, m.bytes, m.messages) for m in moved.transfers] == [
        ("image_to_gpu", 9 * 72, 9 * 72 * 4, 1),
        ("by_to_cpu", 7 * 70, 7 * 70 * 4, 1),
    ]


def test_devices_that_share_the_work_get_exactly_what_they_lack() -> None:
    f = cooperative_blur()
    program = derive(f)
    report = f.check()
    assert report.ok, report
    moved = communication(program, {"R": 120, "C": 201})
    assert moved.elements == (40 + 2) * 203 + 40 * 201
    assert moved.messages == 2


def test_a_transfer_of_the_user_is_respected() -> None:
    f = blur_on_gpu()
    f.change("create_xfer", lambda p: with_transfer(p, "up", "image", values(f, "image"), Transfer(None, 0), True, ""))
    program = derive(f)
    assert transfers(program) == {"up": (None, 0), "by_to_cpu": (0, None)}
    assert f.check().ok, f.check()


def values(f: Draft, name: str) -> isl.Set:
    return Touches(f.program).values.domain(name)


def test_one_device_after_the_other_hands_values_on_in_each_step_of_time() -> None:
    f = Draft("steps", "T N", (T >= 2) & (N >= 3))
    start = f.input("start", float32, [N])
    u = f.computation("u", {t: T, i: N}, lambda u: select((t == 0) | (i == 0), start[i], u[t - 1, i] + u[t - 1, i - 1]))
    f.outputs(u)
    left, right = u.separate_at(i, [16])
    (first,), (second,) = left.statement_names(), right.statement_names()
    right.after(left, t)
    right.split(i, 64, i0, i1)
    on_gpu(f, second, [i0], [i1])
    program = derive(f)
    assert f.check().ok, f.check()
    moved = communication(program, {"T": 5, "N": 100})
    rows = {m.direction: (m.elements, m.messages) for m in moved.transfers if m.name.startswith("u_")}
    assert rows == {"host -> gpu 0": (4, 4), "gpu 0 -> host": (5 * 84, 1)}
    assert first in program.statements


def test_two_gpus_exchange_the_halo_and_each_gets_its_part_of_the_input() -> None:
    f = Draft("blur", "R C", (R > 80) & (C >= 1))
    image = f.input("image", float32, [R, C])
    bx = f.computation("bx", {r: R, c: C}, image[r, c] + 1)
    by = f.computation("by", {r: (1, R - 1), c: C}, bx[r - 1, c] + bx[r, c] + bx[r + 1, c], shape=[R, C])
    f.outputs(by)
    for stage in (bx, by):
        for device, part in enumerate(stage.separate_at(r, [40])):
            part.split(c, 64, c0, c1)
            (name,) = part.statement_names()
            on_gpu(f, name, [r, c0], [c1], Launch(device=device))
    program = derive(f)
    assert f.check().ok, f.check()
    moved = communication(program, {"R": 100, "C": 30})
    assert {(m.name, m.direction): m.elements for m in moved.transfers} == {
        ("image_to_gpu", "host -> gpu 0"): 40 * 30,
        ("image_to_gpu1", "host -> gpu 1"): 60 * 30,
        ("bx_to_gpu", "gpu 1 -> gpu 0"): 30,
        ("bx_to_gpu1", "gpu 0 -> gpu 1"): 30,
        ("by_to_cpu", "gpu 0 -> host"): 39 * 30,
        ("by_to_cpu2", "gpu 1 -> host"): 59 * 30,
    }


def test_kernels_on_different_sequences_are_made_to_wait_for_each_other() -> None:
    story = blur()
    for stream, stage in enumerate((story.p, story.q)):
        stage.split(c, 64, c0, c1)
        on_gpu(story.draft, stage.name, [r, c0], [c1], Launch(stream=stream))
    program = derive(story.draft)
    assert story.draft.check().ok, story.draft.check()
    assert waits(program) == ["bx_done"]
    waiting = program.statements["bx_done"].waits
    assert waiting is not None and waiting.on == 1


def test_results_that_stay_on_the_gpu_are_waited_for_at_the_end() -> None:
    f = blur_on_gpu()
    for name in ("image", "by"):
        changed = replace(f.program.buffers[name], device=0)
        f.change("on the GPU", lambda p, changed=changed: p.with_buffer(changed))  # type: ignore[misc]
    program = derive(f)
    assert transfers(program) == {}
    assert waits(program) == ["by_done"]
    assert f.check().ok, f.check()
