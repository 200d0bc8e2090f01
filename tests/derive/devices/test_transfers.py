"""Derived transfers: what each device reads and does not store itself, exactly, once, and proven."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.programs.drafts import Draft
from tests.programs.gpu.kernels import on_gpu
from tests.programs.stories import C, N, R, T, blur, c, c0, c1, i, i0, i1, r, r0, r1, t
from tiramisu_py.algorithm.expressions import select
from tiramisu_py.algorithm.types import float32
from tiramisu_py.counting.communication import communication
from tiramisu_py.counting.lattice_points import count
from tiramisu_py.dependence.accesses import MemoryAccesses
from tiramisu_py.derive.derive_transfers import derived_transfers
from tiramisu_py.errors import ArgumentError
from tiramisu_py.program.loops import Launch
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Transfer
from tiramisu_py.program.storage import Memory
from tiramisu_py.proof import check
from tiramisu_py.schedule.devices.transfers import with_transfer


def transfers(program: Program) -> dict[str, tuple[int | None, int | None]]:
    """The transfers of a program by name, each with its source and its target."""
    found = [s for s in program.statements.values() if s.link.transfer is not None]
    return {s.name: (s.link.transfer.source, s.link.transfer.target) for s in found if s.link.transfer}


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
    return MemoryAccesses(f.program).values.domain(name)


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
    waiting = program.statements["bx_done"].link.waits
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


def test_each_step_of_time_moves_the_halo_and_the_last_one_the_result() -> None:
    f = Draft("steps", "T N", (T >= 2) & (N >= 40))
    start = f.input("start", float32, [N])
    edge = (t == 0) | (i == 0) | (i == N - 1)
    u = f.computation("u", {t: T, i: N}, lambda u: select(edge, start[i], u[t - 1, i - 1] + u[t - 1, i + 1]))
    last = f.computation("last", {i: N}, u[T - 1, i])
    f.outputs(last)
    u.store_in([t % 2, i])
    left, right = u.separate_at(i, [16])
    right.after(left, t)
    right.split(i, 64, i0, i1)
    right.tag_gpu(blocks=[i0], threads=[i1])
    program = derive(f)
    assert f.check().ok, f.check()
    rows = [(m.direction, m.elements, m.messages) for m in communication(program, {"T": 5, "N": 100}).transfers]
    assert sorted(rows) == sorted(
        [("host -> gpu 0", 84, 1), ("host -> gpu 0", 4, 4), ("gpu 0 -> host", 4, 4), ("gpu 0 -> host", 84, 1)]
    )


@pytest.mark.parametrize("streams", [None, (1, 0)])
def test_a_buffer_of_one_tile_is_filled_and_waited_for_in_each_tile(streams: tuple[int, int] | None) -> None:
    story = blur()
    f = story.draft
    story.q.split(r, 16, r0, r1)
    story.p.compute_at(story.q, r0)
    story.q.split(c, 64, c0, c1)
    if streams:
        story.p.split(c, 64, c0, c1)
        story.p.tag_gpu(blocks=[r, c0], threads=[c1], stream=streams[0])
    story.q.tag_gpu(blocks=[r1, c0], threads=[c1], stream=streams[1] if streams else 0)
    program = derive(f)
    assert f.check().ok, f.check()
    moved = {m.name: m.elements for m in communication(program, {"R": 50, "C": 7}).transfers}
    expected = {"image_to_gpu": 52 * 9} if streams else {"bx_to_gpu": sum(min(18, 52 - 16 * k) for k in range(4)) * 7}
    assert moved == {**expected, "by_to_cpu": 50 * 7}
    assert waits(program) == (["bx_done", "by_done"] if streams else ["by_done"])


def test_only_the_strips_that_a_gpu_computes_come_back_and_a_triangle_comes_back_row_by_row() -> None:
    f = Draft("strips", "N", N >= 10)
    a = f.input("a", float32, [N, N])
    b = f.computation("b", {r: N, c: N}, a[r, c] * 2)
    t_ = f.computation("lower", [{r: N, c: (0, r + 1)}], a[r, c] * 2)
    sums = f.computation("sums", {r: N, c: N}, b[r, c] + select(c <= r, t_[r, c], 0))
    f.outputs(sums)
    first, _, third = b.separate_at(r, [2, N - 2])
    for part in (first, third, t_):
        part.split(c, 64, c0, c1)
        part.tag_gpu(blocks=[r, c0], threads=[c1])
    program = derive(f)
    assert f.check().ok, f.check()
    moved = [(m.name, m.elements, m.messages) for m in communication(program, {"N": 20}).transfers]
    back = sorted(row for row in moved if "cpu" in row[0])
    assert back == [
        ("b_to_cpu", 40, 1), ("b_to_cpu2", 40, 1), ("lower_to_cpu", int(np.tri(20).sum()), 20)
    ]  # fmt: skip


@pytest.mark.parametrize("memory", [Memory.HOST_MAPPED, Memory.GPU])
def test_memory_that_both_see_or_one_alone_is_not_copied(memory: Memory) -> None:
    story = blur()
    stages = (story.p,) if memory is Memory.HOST_MAPPED else (story.p, story.q)
    for stage in stages:
        stage.split(c, 64, c0, c1)
        stage.tag_gpu(blocks=[r, c0], threads=[c1])
    story.p.store_in(memory)
    program = derive(story.draft)
    assert story.draft.check().ok, story.draft.check()
    assert not any(name.startswith("bx") for name in transfers(program))
    assert waits(program) == (["bx_done"] if memory is Memory.HOST_MAPPED else [])


def test_without_any_one_of_its_transfers_and_waits_a_program_is_refused() -> None:
    story = blur()
    for stream, stage in enumerate((story.p, story.q)):
        stage.split(c, 64, c0, c1)
        stage.tag_gpu(blocks=[r, c0], threads=[c1], stream=stream)
    program = derive(story.draft)
    derived = [s.name for s in program.statements.values() if s.link.transfer or s.link.waits]
    assert len(derived) == 3
    for name in derived:
        kept = {n: s for n, s in program.statements.items() if n != name}
        assert not check(program.with_(statements=kept)).ok, name


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 3), st.integers(1, 3))
def test_points_are_counted_as_numpy_counts_them(rows: int, columns: int, skew: int, step: int) -> None:
    text = f"{{ [i, j] : 0 <= i < {rows} and 0 <= j < {columns} and (j >= i - {skew} and (i + j) mod {step} = 0) }}"
    below, right = np.mgrid[:rows, :columns]
    assert count(isl.Set(text)) == np.sum((right >= below - skew) & ((below + right) % step == 0))


def test_sizes_that_the_program_does_not_have_are_refused() -> None:
    f = blur_on_gpu()
    with pytest.raises(ArgumentError, match="C has no value"):
        communication(f.program, {"R": 3})
    with pytest.raises(ArgumentError, match="K is not one of them"):
        communication(f.program, {"R": 3, "C": 4, "K": 1})
    with pytest.raises(ArgumentError, match="not defined for R = 0"):
        communication(f.program, {"R": 0, "C": 4})
