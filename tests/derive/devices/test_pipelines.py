"""Loops of the host as pipelines: each value is brought once, in the iteration that reads it first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs.gpu.cooperating import (
    C,
    N,
    Program,
    blur,
    chunked,
    cooperative,
    in_two_loops,
    k,
    on_gpu,
    r,
    r1,
    two_gpus,
)
from tiramisu_py import sets
from tiramisu_py.program.statement import Role

ROWS, COLUMNS = 21, 12


def brought(f: tm.Function, split: int) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """The elements of the image that go to a GPU by the first coordinate of the loops, -1 outside; each only once."""
    found: dict[tuple[int, int], set[tuple[int, int]]] = {}
    params = {"R": ROWS, "C": COLUMNS, "G": split}
    for statement in f.program.storing:
        if (
            statement.source == "image"
            and statement.link.transfer is not None
            and statement.link.transfer.source is None
        ):
            depth = f.program.host_depth(statement)
            forms = sets.joined(statement.prefix(depth), statement.point)
            within = statement.instances.intersect_params(f.program.context.params())
            for point in sets.points(sets.fixed(sets.as_set(sets.graph(forms, within).range()), params)):
                key = (statement.link.transfer.device, point[0] if depth else -1)
                assert all(point[-2:] not in found.get((key[0], other), ()) for other in range(-1, ROWS))
                found.setdefault(key, set()).add(point[-2:])
    return found


def rows_read(rows: range) -> set[tuple[int, int]]:
    return {(row, column) for row in range(rows.start, rows.stop + 2) for column in range(COLUMNS + 2) if rows}


@pytest.mark.parametrize("rows", [1, 4, 30])
@pytest.mark.parametrize("split", [0, 1, 9, 21])
def test_an_iteration_brings_what_no_earlier_one_has(rows: int, split: int) -> None:
    f, _ = cooperative(rows)
    f.derive_transfers(pipeline=k)
    found = brought(f, split)
    seen: set[tuple[int, int]] = found.get((0, -1), set())
    for number, start in enumerate(range(0, split, rows)):
        seen = seen | found.get((0, number), set())
        assert seen == rows_read(range(min(start + rows, split)))
    moved = {m.name: m.elements for m in f.cost("communication", R=ROWS, C=COLUMNS, G=split).transfers}
    assert sum(n for name, n in moved.items() if name.startswith("image")) == len(rows_read(range(split)))
    assert moved["by_to_cpu"] == split * COLUMNS


@pytest.mark.parametrize("make", [chunked, in_two_loops])
def test_kernels_of_one_chunk_share_what_was_brought(make: Callable[[], Program]) -> None:
    f, _ = make()
    f.derive_transfers(pipeline=[k])
    assert set().union(*brought(f, 0).values()) == rows_read(range(ROWS))
    assert f.cost("communication", R=ROWS, C=COLUMNS, G=0).elements == len(rows_read(range(ROWS))) + ROWS * COLUMNS


def test_each_of_two_gpus_has_a_pipeline_of_its_own() -> None:
    f, _ = two_gpus()
    f.derive_transfers(pipeline=k)
    found = brought(f, 9)
    for device, rows in enumerate((range(9), range(9, ROWS))):
        mine = [elements for (on, _), elements in found.items() if on == device]
        assert len(mine) > 1 and set().union(*mine) == rows_read(rows)


def test_the_host_does_not_wait_in_the_loop() -> None:
    f, _ = cooperative(4)
    f.derive_transfers(pipeline=k)
    waits = [s for s in f.program.statements.values() if s.role is Role.WAIT and s.link.waits is not None]
    assert [s.link.waits.on for s in waits if s.loops and s.link.waits] == [0, 2]
    assert [s.name for s in waits if not s.loops] == ["by_to_cpu_done"]
    streams = {s.name: s.link.transfer.stream for s in f.program.storing if s.link.transfer is not None}
    assert streams == {"image_to_gpu_first": 1, "image_to_gpu": 1, "by_to_cpu": 2}


def test_pipelines_on_ranks() -> None:
    f = tm.Function("twice", params=[C], assume="C >= 1")
    q, c, c0, c1 = tm.iters("q c c0 c1")
    a = f.input("a", tm.float32, [16, C])
    b = f.computation("b", {r: 16, c: C}, 2 * a[r, c])
    f.outputs(b)
    for array in (a, b):
        array.distribute_array([r, c], rank=r // 8)
    b.split(r, 8, q, r1)
    b.tag_distribute(q)
    r2, r3 = tm.iters("r2 r3")
    b.split(r1, 3, r2, r3)
    b.split(c, 4, c0, c1)
    b.tag_gpu(blocks=[r3, c0], threads=[c1])
    f.derive_transfers(pipeline=r2)
    assert f.check().ok, f.check()
    moved = {m.name: (m.elements, m.messages) for m in f.cost("communication", C=5).transfers}
    assert moved == {"a_to_gpu": (80, 6), "b_to_cpu": (80, 6)}
    given = {"a": np.arange(80, dtype=np.float32).reshape(16, 5)}
    np.testing.assert_array_equal(f.simulate(**given), f.evaluate(**given))


def test_what_is_no_loop_of_the_host_around_kernels_is_refused() -> None:
    z, c1 = tm.iters("z c1")
    f, _ = cooperative(4)
    for wrong, message in (
        (z, "no loop is called z; those around kernels are k"),
        (r1, "loop r1 is a gpu block loop inside the kernel of by_0"),
        (c1, "loop c1 is a gpu thread loop inside the kernel of by_0"),
        (r, "no kernel is inside loop r"),
        ([k, z], "no loop is called z"),
        (3, "3 cannot name a loop"),
    ):
        with pytest.raises(tm.CommandError, match=message):
            f.derive_transfers(pipeline=wrong)


def test_nothing_to_pipeline_is_said() -> None:
    f, _, by = blur()
    by.split(r, 4, k, r1)
    with pytest.raises(tm.CommandError, match="nothing runs on a GPU"):
        f.derive_transfers(pipeline=k)
    f = tm.Function("stays", params=[N], assume="N >= 1")
    i, i0, i1 = tm.iters("i i0 i1")
    a = f.input("a", tm.float32, [N], memory=tm.GPU_MEMORY)
    b = f.computation("b", {i: N}, a[i] + 1)
    f.outputs(b)
    b.store_in(tm.GPU_MEMORY)
    b.split(i, 64, k, i0)
    b.split(i0, 8, i0, i1)
    b.tag_gpu(blocks=[i0], threads=[i1])
    with pytest.raises(tm.CommandError, match="there is nothing to pipeline"):
        f.derive_transfers(pipeline=k)


def test_an_order_of_the_two_loops_does_not_matter_for_what_is_needed() -> None:
    f, bx, by = blur(stages=True)
    on_gpu(bx, 4)
    by.parallelize(r)
    f.derive_transfers(pipeline=k)
    assert f.check().ok
    assert (
        f.cost("communication", R=ROWS, C=COLUMNS, G=0).elements == len(rows_read(range(ROWS))) + (ROWS + 2) * COLUMNS
    )
