"""Commands for GPUs: what each does to loops, tags, statements and buffers, and what is refused at once."""

# ruff: noqa: E501  (a case a line is what makes the table readable)

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import islpy as isl
import numpy as np
import pytest

import tiramisu_py as tm
from tests.programs import pipelines as pl
from tests.programs.drafts import texts
from tests.programs.pipelines import c, c0, c1, i, i0, i1, j, j0, j1, k, k0, k1, r, r0, r1, t, x, y
from tiramisu_py.interpret import run
from tiramisu_py.program.kernels import kernels
from tiramisu_py.program.loops import Bulk, GpuBlock, GpuThread, Launch
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role, Transfer, Waiting

u, v, w = tm.iters("u v w")
R, C, N, M, K = tm.params("R C N M K")


def loops_of(s: SimpleNamespace, statement: str) -> list[str]:
    """The loops of a statement as text: b, t with the axis for block and thread loops, * for one operation."""
    program: Program = s.f.program
    found = []
    for number in program.statements[statement].loops:
        match program.loops[number].tag:
            case GpuBlock(axis=axis):
                mark = ":b" + "xyz"[axis]
            case GpuThread(axis=axis):
                mark = ":t" + "xyz"[axis]
            case Bulk():
                mark = ":*"
            case _:
                mark = ""
        found.append(program.loops[number].name + mark)
    return found


def executed(s: SimpleNamespace, name: str, **sizes: int) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """For each value the coordinates at which a statement stores it, enumerated by isl at some sizes."""
    program: Program = s.f.program
    statement = program.statements[name]
    points = isl.Map.from_multi_aff(statement.point).intersect_domain(statement.instances)
    relation = isl.Map.from_multi_aff(statement.coords).intersect_domain(statement.instances).reverse()
    pairs = relation.apply_range(points).reset_tuple_id(isl.dim_type.out).wrap().flatten()
    for number, param in enumerate(program.algorithm.params):
        pairs = pairs.fix_val(isl.dim_type.param, number, isl.Val(sizes[param], pairs.get_ctx()))
    pairs = pairs.project_out(isl.dim_type.param, 0, pairs.dim(isl.dim_type.param))
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    depth = len(statement.loops)

    def at(point: isl.Point) -> None:
        values = tuple(
            int(point.get_coordinate_val(isl.dim_type.set, n).to_python()) for n in range(pairs.dim(isl.dim_type.set))
        )
        found.setdefault(values[depth:], []).append(values[:depth])

    pairs.foreach_point(at)
    return found


def tiled() -> SimpleNamespace:
    """The blur in tiles of 8 by 32, the first stage inlined."""
    s = pl.blur()
    s.bx.inline()
    s.by.gpu_tile(r, c, 8, 32, r0, c0, r1, c1)
    return s


def product() -> SimpleNamespace:
    """The matrix product in tiles of 16 by 16, with the loop over terms split by 16."""
    s = pl.matmul()
    s.C.gpu_tile(i, j, 16, 16, i0, j0, i1, j1)
    s.C.update.after(s.C.init, j1)
    s.C.update.split(k, 16, k0, k1)
    return s


# -- tag_gpu


def test_the_last_loop_of_each_list_is_along_x():
    s = pl.volume()
    s.o.split(k, 8, k0, k1).split(j, 4, j0, j1).reorder(i, j0, k0, j1, k1)
    s.o.tag_gpu(blocks=[i, j0, k0], threads=[j1, k1])
    assert loops_of(s, "o") == ["i:bz", "j0:by", "k0:bx", "j1:ty", "k1:tx"]


def test_the_same_tag_given_again_replaces_its_properties():
    s = pl.scale()
    s.o.split(j, 8, j0, j1)
    s.o.tag_gpu(blocks=[i, j0], threads=[j1], stream=1, minimum_blocks=2)
    s.o.tag_gpu([i, j0], [j1], 3, device=1, grid=4, combine=tm.TREE, barriers=False)
    (kernel,) = kernels(s.f.program)
    assert kernel.launch == Launch(3, 1, 4, None, False)
    assert loops_of(s, "o") == ["i:by", "j0:bx", "j1:tx"]
    assert texts(s.f)[-1] == (
        "o.tag_gpu(blocks=[i, j0], threads=[j1], stream=3, device=1, grid=4, combine=tm.TREE, barriers=False)"
    )


def test_a_tile_is_tagged_as_a_tile_and_a_tag_would():
    s, other = pl.scale(), pl.scale()
    s.o.gpu_tile(i, j, 4, 8, i0, j0, i1, j1)
    other.o.tile(i, j, 4, 8, i0, j0, i1, j1).tag_gpu(blocks=[i0, j0], threads=[i1, j1])
    assert loops_of(s, "o") == loops_of(other, "o") == ["i0:by", "j0:bx", "i1:ty", "j1:tx"]
    assert kernels(s.f.program)[0].launch == kernels(other.f.program)[0].launch == Launch(0)
    assert texts(s.f) == ("o.gpu_tile(i, j, 4, 8, i0, j0, i1, j1)",)
    s = pl.volume()
    s.o.gpu_tile(i, j, k, 2, 3, 4, i0, j0, k0, i1, j1, k1)
    assert loops_of(s, "o") == ["i0:bz", "j0:by", "k0:bx", "i1:tz", "j1:ty", "k1:tx"]
    assert kernels(s.f.program)[0].shape == (4, 3, 2)


def test_a_statement_computed_inside_a_kernel_has_threads_of_its_own():
    s = pl.blur()
    s.by.gpu_tile(r, c, 8, 32, r0, c0, r1, c1)
    s.bx.compute_at(s.by, c0)
    s.bx.tag_gpu(threads=[r, c])
    assert loops_of(s, "bx") == ["r0:by", "c0:bx", "r:ty", "c:tx"]
    (kernel,) = kernels(s.f.program)
    assert kernel.shape == (32, 10, 1)


def test_a_statement_that_joins_a_kernel_takes_its_tags():
    s = pl.chain()
    for stage in (s.p, s.q):
        stage.split(i, 16, i0, i1)
    s.p.tag_gpu(blocks=[i0], threads=[i1], stream=1)
    s.q.after(s.p, i1)
    assert loops_of(s, "q") == ["i0:bx", "i1:tx"]
    assert len(kernels(s.f.program)) == 1


# -- coarsen


@pytest.mark.parametrize("extent", [16, 13])
def test_a_coarsened_thread_takes_iterations_a_stride_apart(extent):
    s = pl.scale()
    s.o.split(j, extent, j0, j1).tag_gpu(blocks=[i, j0], threads=[j1])
    before = executed(s, "o", N=2, M=29)
    s.o.coarsen(j1, 4, u)
    assert loops_of(s, "o") == ["i:by", "j0:bx", "j1:tx", "u"]
    stride = -(-extent // 4)
    assert kernels(s.f.program)[0].shape == (stride, 1, 1)
    wanted = {value: [(*at[:2], at[2] % stride, at[2] // stride)] for value, (at,) in before.items()}
    assert executed(s, "o", N=2, M=29) == wanted


def test_a_coarsened_block_takes_neighbours_one_after_another():
    s = pl.scale()
    s.o.split(j, 8, j0, j1).tag_gpu(blocks=[i, j0], threads=[j1])
    before = executed(s, "o", N=7, M=20)
    s.o.coarsen(i, 3, u)
    assert loops_of(s, "o") == ["i:by", "j0:bx", "u", "j1:tx"]
    wanted = {value: [(at[0] // 3, at[1], at[0] % 3, at[2])] for value, (at,) in before.items()}
    assert executed(s, "o", N=7, M=20) == wanted


def test_shared_memory_stays_with_the_block_when_blocks_are_coarsened():
    s = tiled()
    s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED)
    s.by.coarsen(c0, 2, u)
    program = s.f.program
    name = {number: loop.name for number, loop in program.loops.items()}
    assert [name[loop] for loop in program.buffers["image_shared"].scope] == ["r0", "c0"]
    assert [name[loop] for loop in program.storages["image_shared"].inner] == ["u"]


# -- caches


def test_every_element_of_a_tile_is_copied_once_by_a_thread_of_the_block():
    s = tiled()
    s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED)
    assert loops_of(s, "image_shared") == ["r0:by", "c0:bx", "y", "x", "y_y:ty", "x_x:tx"]
    found = executed(s, "image_shared", R=11, C=50)
    copied: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for (row, column), places in found.items():
        for block_row, block_column, *_, ty, tx in places:
            assert 0 <= ty < 8 and 0 <= tx < 32
            copied.setdefault((block_row, block_column), set()).add((row, column))
        assert len({place[:2] for place in places}) == len(places)
    assert copied[0, 0] == {(row, column) for row in range(10) for column in range(34)}
    assert copied[1, 1] == {(row, column) for row in range(8, 13) for column in range(32, 52)}
    buffer = s.f.program.buffers["image_shared"]
    assert buffer.memory is tm.SHARED and [str(e) for e in buffer.extents] == ["10", "34"]


def test_neighbouring_threads_copy_neighbouring_elements():
    s = tiled()
    s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED)
    found = executed(s, "image_shared", R=8, C=32)
    threads = [place[-1] for column in range(32) for place in found[3, column]]
    assert threads == list(range(32))


def test_a_tile_narrower_than_the_block_is_dealt_out_as_a_whole():
    s = pl.blur()
    s.bx.inline()
    s.by.split(c, 4, c0, c1).split(r, 16, r0, r1).reorder(r0, c0, r1, c1)
    s.by.tag_gpu(blocks=[r0, c0], threads=[r1])
    s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED)
    assert loops_of(s, "image_shared") == ["r0:by", "c0:bx", "y_x", "y_x_x:tx"]
    found = executed(s, "image_shared", R=16, C=4)
    assert len(found) == 18 * 6
    work = [sum(place[-1] == thread for places in found.values() for place in places) for thread in range(16)]
    assert max(work) - min(work) <= 1


def test_of_thread_loops_around_a_copy_each_thread_has_its_share():
    s = product()
    s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED)
    assert loops_of(s, "A_shared") == ["i0:by", "j0:bx", "i1:ty", "j1:tx", "k0"]
    found = executed(s, "A_shared", N=20, M=40, K=33)
    assert set(found) == {(a, b) for a in range(20) for b in range(33)}
    for (row, column), places in found.items():
        assert sorted(places) == [(row // 16, block, row % 16, column % 16, column // 16) for block in range(3)]


def test_threads_copy_for_others_even_where_they_compute_nothing():
    """Of 20 columns, the second block computes 4; all of its 16 threads along x copy the rows."""
    s = product()
    s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED)
    found = executed(s, "A_shared", N=16, M=20, K=16)
    assert {place[3] for places in found.values() for place in places if place[1] == 1} == set(range(16))


def test_the_loops_named_by_threads_run_on_them():
    s = tiled()
    s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED, threads=[x])
    assert loops_of(s, "image_shared") == ["r0:by", "c0:bx", "y", "x", "x_x:tx"]


def test_padding_widens_the_last_extent_alone():
    s = product()
    s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED, pad=1, name="tile")
    assert [str(e) for e in s.f.program.buffers["tile"].extents] == ["16", "17"]


def test_two_buffers_take_turns_one_iteration_ahead():
    s = product()
    s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED, deferred=True, buffers=2)
    program = s.f.program
    assert program.statements["A_shared"].link.deferred
    assert [str(e) for e in program.buffers["A_shared"].extents] == ["2", "16", "16"]
    found = executed(s, "A_shared", N=16, M=16, K=48)
    assert {(column // 16, place[-1]) for (_, column), places in found.items() for place in places} == {
        (0, -1), (1, 0), (2, 1),
    }  # fmt: skip
    copy, reader = program.statements["A_shared"], program.statements["C_update"]
    filled, read = program.storages[copy.memory.target], program.storage_for(reader, "A")
    assert filled.buffer == read.buffer == "A_shared" and filled is not read
    stored = isl.Map.from_multi_aff(program.place(copy, filled, program.value_of(copy)))
    value = isl.MultiAff.read_from_str(reader.frame.get_ctx(), "[N, M, K] -> { C_update[i, j, k] -> A[i, k] }")
    loaded = isl.Map.from_multi_aff(program.place(reader, read, value, stored=False))
    both = isl.Map.from_multi_aff(copy.point).reverse().apply_range(stored.intersect_domain(copy.instances))
    wanted = isl.Map.from_multi_aff(value).intersect_domain(reader.instances)
    assert loaded.intersect_domain(reader.instances).is_subset(wanted.apply_range(both))


def test_registers_hold_what_one_thread_reads():
    s = product()
    s.C.update.copy(s.B, [y, x], at=k0, into=tm.REGISTER)
    assert loops_of(s, "B_local") == ["i0:by", "j0:bx", "i1:ty", "j1:tx", "k0", "y", "x"]
    buffer = s.f.program.buffers["B_local"]
    assert buffer.memory is tm.REGISTER and [str(e) for e in buffer.extents] == ["16", "1"]
    assert len(buffer.scope) == 5


def test_registers_are_filled_from_a_copy_in_shared_memory():
    s = product()
    s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED)
    s.C.update.copy(s.A, [y, x], at=k1, into=tm.REGISTER)
    program = s.f.program
    assert program.statements["A_local"].memory.sources == {"A": "A_shared"}
    assert program.statements["C_update"].memory.sources == {"A": "A_local"}
    assert program.positions["A_shared"] < program.positions["A_local"] < program.positions["C_update"]


def test_shared_memory_is_scoped_to_the_blocks_in_either_order_of_commands():
    def scope(*steps: Callable[[SimpleNamespace], object]) -> tuple[list[str], list[str]]:
        s = pl.blur()
        for step in steps:
            step(s)
        program = s.f.program
        names = [program.loops[loop].name for loop in program.buffers["bx"].scope]
        return names, [str(extent) for extent in program.buffers["bx"].extents]

    def tile(s: SimpleNamespace) -> object:
        return s.by.gpu_tile(r, c, 8, 32, r0, c0, r1, c1)

    def at(s: SimpleNamespace) -> object:
        return s.bx.compute_at(s.by, c0)

    def shared(s: SimpleNamespace) -> object:
        return s.bx.store_in(tm.SHARED)

    wanted = (["r0", "c0"], ["10", "32"])
    assert scope(tile, at, shared) == scope(tile, shared, at) == scope(shared, tile, at) == wanted
    assert scope(lambda s: s.by.tile(r, c, 8, 32, r0, c0, r1, c1), at, shared,
                 lambda s: s.by.tag_gpu(blocks=[r0, c0], threads=[r1, c1])) == wanted  # fmt: skip


def dealt_out_as_a_whole() -> SimpleNamespace:
    """Tiles of 16 by 4, and 16 threads in a row."""
    s = pl.blur()
    s.bx.inline()
    s.by.split(c, 4, c0, c1).split(r, 16, r0, r1).reorder(r0, c0, r1, c1)
    s.by.tag_gpu(blocks=[r0, c0], threads=[r1])
    s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED)
    return s


def coarsened() -> SimpleNamespace:
    """Each block two tiles, through one buffer; each thread two rows."""
    s = pl.blur()
    s.bx.inline()
    s.by.gpu_tile(r, c, 4, 4, r0, c0, r1, c1)
    s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED)
    s.by.coarsen(c0, 2, u)
    s.by.coarsen(r1, 2, v)
    return s


def small_product(*, buffers: int = 1) -> SimpleNamespace:
    """Both factors through tiles of 4 by 4."""
    s = pl.matmul()
    s.C.gpu_tile(i, j, 4, 4, i0, j0, i1, j1)
    s.C.update.after(s.C.init, j1)
    s.C.update.split(k, 4, k0, k1)
    s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED, buffers=buffers)
    s.C.update.copy(s.B, [y, x], at=k0, into=tm.SHARED, pad=1, buffers=buffers)
    return s


def split_after_caching() -> SimpleNamespace:
    """Two buffers in turn, and then the loop in which they take turns is split."""
    s = small_product(buffers=2)
    s.C.update.split(k0, 2, v, w)
    return s


def through_registers() -> SimpleNamespace:
    """From the GPU's memory to shared memory, and from there to registers."""
    s = small_product()
    s.C.update.copy(s.A, [y, x], at=k0, into=tm.REGISTER)
    return s


@pytest.mark.parametrize("make", [dealt_out_as_a_whole, coarsened, split_after_caching, through_registers])
def test_programs_with_caches_are_proven_and_right(make):
    s = make()
    s.f.derive_transfers()
    assert s.f.check().ok, s.f.check()
    function = s.f.show("lowered")
    for sizes in (dict(zip(s.params, (5, 9, 6), strict=False)), dict(zip(s.params, (1, 4, 13), strict=False))):
        rng = np.random.default_rng(1)
        arrays = {}
        for declared in s.f.algorithm.inputs.values():
            shape = [eval(str(extent), {}, sizes) for extent in declared.shape]
            arrays[declared.name] = rng.integers(-4, 5, shape).astype(declared.dtype.numpy)
        wanted = s.f.evaluate(**arrays, **sizes)
        got = np.zeros_like(wanted)
        run(function, {**arrays, function.outputs[0]: got}, sizes, 2)
        np.testing.assert_array_equal(got, wanted, err_msg=str(sizes))


# -- transfers, waits, barriers


def test_a_transfer_is_a_copy_between_two_instances_of_one_array():
    s = pl.blur()
    s.f.create_xfer({r: R + 2, c: C + 2}, s.image[r, c], tm.CPU2GPU, tm.ASYNC, stream=1, device=1, name="up")
    s.f.create_xfer({r: R, c: C}, s.by[r, c], tm.GPU2CPU)
    over = s.f.create_xfer({r: R, c: C}, s.by[r, c], tm.GPU2GPU, tm.SYNC, device=0, to_device=2)
    found = {name: statement for name, statement in s.f.program.statements.items() if statement.link.transfer}
    assert over.name == "by_to_gpu"
    assert found["up"].link.transfer == Transfer(None, 1, True, 1)
    assert found["by_to_cpu"].link.transfer == Transfer(0, None, False, 0)
    assert found["by_to_gpu"].link.transfer == Transfer(0, 2, False, 0)
    assert found["up"].role is Role.COPY and found["up"].source == found["up"].memory.target == "image"


def test_transfers_are_declared_between_producers_and_readers():
    s = pl.blur()
    s.f.create_xfer({r: R, c: C}, s.by[r, c], tm.GPU2CPU, name="down")
    s.f.create_xfer({r: R + 2, c: C + 2}, s.image[r, c], tm.CPU2GPU, name="up")
    s.f.create_xfer({r: R + 2, c: C}, s.bx[r, c], tm.CPU2GPU, name="middle")
    assert list(s.f.program.statements) == ["up", "bx", "middle", "by", "down"]


def test_a_transfer_of_shifted_values_and_a_wait_for_them_agree():
    s = pl.blur()
    up = s.f.create_xfer({r: R, c: C}, s.image[r + 2, c + 1], tm.CPU2GPU, tm.ASYNC, name="up")
    up.collapse_many(c)
    done = up.wait({r: R}, on=3, name="done")
    s.f.order(up, done, at=r)
    statement = s.f.program.statements["done"]
    assert statement.link.waits == Waiting("up", (0,), 3, 0)
    assert str(statement.coords).endswith("done[r] -> [(-2 + r)] }")
    assert executed(s, "up", R=2, C=1) == {(2, 1): [(0, 0)], (3, 1): [(1, 0)]}
    assert loops_of(s, "up") == ["r", "c:*"] and loops_of(s, "done") == ["r"]


def test_a_wait_takes_the_position_of_the_iterator_that_it_names():
    s = pl.scale()
    s.o.split(j, 8, j0, j1).tag_gpu(blocks=[j0], threads=[j1])
    columns = s.o.wait({j: M}, on=1)
    everything = s.o.wait(name="all")
    found = s.f.program.statements
    assert found[columns.name].link.waits == Waiting("o", (1,), 1, 0)
    assert found[everything.name].link.waits == Waiting("o", (), None, 0) and found["all"].loops == ()


def test_removing_a_wait_keeps_the_order_of_what_was_around_it():
    s = pl.pair()
    up = s.f.create_xfer({i: N + 1}, s.a[i], tm.CPU2GPU, tm.ASYNC, name="up")
    done = up.wait()
    s.f.order(up, done, s.q, s.p, at=tm.root)
    s.f.remove(done)
    positions = s.f.program.positions
    assert "up_wait" not in positions
    assert positions["up"] < positions["q"] < positions["p"]
    with pytest.raises(tm.CommandError, match="up_wait has been removed"):
        s.f.order(up, done, at=tm.root)


def test_a_copy_that_nothing_reads_can_be_removed_with_its_buffer():
    s = pl.blur()
    copy = s.bx.copy(s.image, [y, x], name="near")
    s.bx.inline()
    s.f.undo()
    with pytest.raises(tm.CommandError, match="near is read by bx"):
        s.f.remove(copy)
    s.f.undo()
    assert "near" not in s.f.program.buffers


def neighbours() -> SimpleNamespace:
    """p of a block in shared memory, read by neighbours."""
    s = pl.pair()
    s.q.split(i, 16, i0, i1).tag_gpu(blocks=[i0], threads=[i1], barriers=False)
    s.p.compute_at(s.q, i0).store_in(tm.SHARED).tag_gpu(threads=[i])
    return s


def test_a_barrier_is_between_its_statements():
    s = neighbours()
    barrier = s.f.barrier(s.p, s.q, at=i0)
    program = s.f.program
    assert program.statements[barrier.name].role is Role.BARRIER
    assert program.positions["p"] < program.positions["barrier"] < program.positions["q"]
    assert loops_of(s, "barrier") == ["i0:bx"]
    s.f.remove(barrier)
    assert "barrier" not in s.f.program.statements


def test_all_threads_of_the_block_come_to_a_barrier_inside_thread_loops():
    """The last block has 4 of 16 columns to compute; all 256 threads come to the barrier, three times."""
    s = product()
    copy = s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED)
    s.f.barrier(copy, s.C.update, at=k0)
    statement = s.f.program.statements["barrier"]
    coords = isl.Map.from_multi_aff(statement.coords).intersect_domain(statement.instances).range()
    for number, size in enumerate((20, 20, 40)):
        coords = coords.fix_val(isl.dim_type.param, number, isl.Val(size, coords.get_ctx()))
    assert int(coords.count_val().to_python()) == 2 * 2 * 256 * 3


def test_a_barrier_after_the_later_statement_separates_iterations():
    s = product()
    copy = s.C.update.copy(s.A, [y, x], at=k0, into=tm.SHARED)
    s.f.barrier(s.C.update, copy, at=k0, name="again")
    positions = s.f.program.positions
    assert positions["A_shared"] < positions["C_update"] < positions["again"]


# -- memories


def test_inputs_and_outputs_can_be_arrays_on_a_gpu():
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float32, [N], memory=tm.GPU_MEMORY, device=1)
    f.input("b", tm.float32, [N], memory="gpu")
    q = f.computation("q", {i: N}, 2 * a[i])
    f.outputs(q)
    q.store_in(tm.GPU_MEMORY, device=1)
    f.computation("z", {i: N}, a[i])
    buffers = f.program.buffers
    assert [(n, b.memory, b.device, b.argument) for n, b in buffers.items()] == [
        ("a", tm.GPU_MEMORY, 1, True), ("b", tm.GPU_MEMORY, 0, True), ("q", tm.GPU_MEMORY, 1, True), ("z", tm.HOST, None, False),
    ]  # fmt: skip
    f.undo()
    assert f.program.buffers["a"].device == 1 and f.program.buffers["q"].memory is tm.HOST


# -- refused at once


Case = tuple[Callable[[], SimpleNamespace], Callable[[SimpleNamespace], object], str]
REFUSED: list[Case] = [
    (pl.scale, lambda s: s.o.tag_gpu(), "needs blocks"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=i), "blocks is i: give a list"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=[i], threads=[i]), "loop i is named twice"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=[k], threads=[j]), "no statement has the loops k, j: o has the loops i, j"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=[i, j, k, t]), "blocks has 4 loops: a GPU has 3 axes"),
    (pl.scale, lambda s: s.o.tag_gpu(threads=[j]), "o is in no kernel: name block loops too"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=[j], threads=[i]), "block loop j .* is inside the gpu thread loop i"),
    (pl.volume, lambda s: s.o.tag_gpu(blocks=[i, k]), "loop j of o is between its block loops"),
    (pl.volume, lambda s: s.o.tag_gpu(blocks=[i], threads=[j]).tag_gpu(threads=[k]), "both are along axis x"),
    (pl.volume, lambda s: s.o.tag_gpu(blocks=[i], threads=[k]).tag_gpu(blocks=[j]), "inside the block loop i already"),
    (pl.volume, lambda s: s.o.tag_gpu(blocks=[i, j], threads=[k]).reorder(i, k, j), "block loop j .* inside the gpu thread"),
    (pl.volume, lambda s: s.o.tag_gpu(blocks=[i, j]).reorder(i, k, j), "loop k of o is between its block loops"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=[i], threads=[j], stream=-1), "stream is -1"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=[i], grid=0), "grid is 0"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=[i], device="gpu:1"), "device is 'gpu:1'"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=[i], combine=tm.PRIVATE), r"choose tm\.ATOMIC or tm\.TREE"),
    (pl.scale, lambda s: s.o.parallelize(i, combine=tm.TREE), "o is no update of a reduction; leave it out"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=[i]).tag_gpu(threads=[j], stream=1), "are for the kernel: name its block loops"),
    (pl.scale, lambda s: s.o.parallelize(i).tag_gpu(blocks=[j]), "gpu block loop j .* is inside the parallel loop i"),
    (pl.scale, lambda s: s.o.tag_gpu(blocks=[i]).parallelize(j), "parallel loop j .* is inside the gpu block loop i"),
    (pl.scale, lambda s: s.o.vectorize(j, 4).tag_gpu(blocks=[i], threads=[j]), "loop j is tagged already"),
    (pl.scale, lambda s: s.o.gpu_tile(i, j, 32, 64, i0, j0, i1, j1), "64 x 32 = 2048 threads: CUDA allows 1024 in a block"),
    (pl.scale, lambda s: s.o.split(j, 2048, j0, j1).tag_gpu(blocks=[i, j0], threads=[j1]), "2048 threads along x"),
    (pl.volume, lambda s: s.o.gpu_tile(i, j, k, 128, 1, 1, i0, j0, k0, i1, j1, k1), "128 threads along z.* CUDA allows 64 there"),
    (pl.scale, lambda s: s.o.gpu_tile(i, j, 8), "gpu_tile takes loops, as many sizes"),
    (pl.scale, lambda s: s.o.coarsen(j, 4, u), "runs neither on threads nor on blocks"),
    (tiled, lambda s: s.by.coarsen(c1, 64, u), "at most 32 iterations: a thread cannot take 64"),
    (tiled, lambda s: s.by.coarsen(c1, 1, u), "the factor of c1 is 1"),
    (tiled, lambda s: s.by.coarsen(c1, 4, r1), "has a loop r1 already"),
    (pl.blur, lambda s: s.by.copy(s.bx, [y, x], at=r, into=tm.SHARED), "by is in no kernel"),
    (tiled, lambda s: s.by.copy(s.image, [y, x], at=r0, into=tm.SHARED), "outside of the kernel's blocks.* choose c0"),
    (tiled, lambda s: s.by.copy(s.image, [y], at=c0, into=tm.SHARED), "needs 2 different iterators"),
    (tiled, lambda s: s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED, threads=[c1]), r"threads=\['c1'\]: name iterators"),
    (tiled, lambda s: s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED, buffers=3), "1 buffer, or 2 that take turns"),
    (tiled, lambda s: s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED, buffers=2), "take turns in a sequential loop, and c0 is not sequential"),
    (tiled, lambda s: s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED, pad=-1), "pad is -1"),
    (tiled, lambda s: s.by.copy(s.image, [y, x], at=c0, into=tm.SHARED, pad=8192), "bytes of shared memory .* CUDA allows 232448"),
    (tiled, lambda s: s.by.copy(s.image, [y, x], at=c0, into=tm.REGISTER), "registers belong to one thread.* thread loop r1"),
    (product, lambda s: s.C.update.copy(s.A, [y, x], at=j0, into=tm.SHARED), "extents 16, K, .* split the loops inside by a constant"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, s.a[i], "up"), "direction='up'"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU, True), "mode=True"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, s.a, tm.CPU2GPU), "a names no value to transfer"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, pl.blur().image[r, c], tm.CPU2GPU), r"image\[r, c\] belongs to another function blur"),
    (pl.pair, lambda s: s.f.create_xfer({i: N + 2}, s.a[i], tm.CPU2GPU), r"values of a that do not exist: there is no a\[1\], at N = 0$"),
    (pl.pair, lambda s: s.a.store_in(tm.GPU_MEMORY), "a is an input, and stored where the caller has it: give memory=tm.GPU_MEMORY"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, s.a[i // 2], tm.CPU2GPU), "names a value several times"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, s.a[i], tm.GPU2GPU), "to_device= is the target of a tm.GPU2GPU transfer"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU, to_device=1), "for no other direction"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, s.a[i], tm.GPU2GPU, to_device=0), "to itself moves nothing"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU, name="p"), "cannot be called p"),
    (pl.blur, lambda s: s.f.create_xfer({r: R, c: C}, s.by[r, c], tm.GPU2CPU).collapse_many(r), "one operation has the innermost loops, not r"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU).parallelize(i), "a transfer, which the host issues"),
    (pl.pair, lambda s: s.p.fuse(s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU).collapse_many(i), i), "is one operation"),
    (pl.pair, lambda s: s.p.wait({k: N}), "p has the iterators i, and not k"),
    (
        pl.pair,
        lambda s: s.f.create_xfer({i: N}, s.a[N - i], tm.CPU2GPU).collapse_many(i).wait({i: N}),
        "not i plus a constant",
    ),
    (pl.pair, lambda s: s.p.wait(on=-1), "on is -1"),
    (pl.pair, lambda s: s.p.wait(name="for p"), "'for p' cannot be the name of a wait"),
    (pl.pair, lambda s: s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU, name="a-up"), "'a-up' cannot be the name of a transfer"),
    (pl.pair, lambda s: s.p.tag_gpu(blocks=[i]).wait({i: N}).after(s.p, i), "p_wait is a wait, which the host issues"),
    (pl.pair, lambda s: (s.q.wait(), s.p.wait(), s.p.inline()), "p_wait waits for it; remove p_wait first"),
    (pl.pair, lambda s: s.f.remove(s.p), "p computes values of p: only transfers"),
    (pl.pair, lambda s: s.f.remove("p"), "pair cannot remove 'p': give a transfer"),
    (pl.pair, lambda s: s.f.barrier(s.p, s.q, at=i), "do not share loop i"),
    (neighbours, lambda s: s.f.barrier(s.p, s.q, at=i), "the two do not share loop i"),
    (pl.pair, lambda s: s.q.store_in(tm.SHARED), "caller's array q, which cannot be in shared memory"),
    (pl.pair, lambda s: s.f.input("z", tm.int8, [4], memory=tm.SHARED), r"in tm\.HOST, tm\.GPU_MEMORY or tm\.HOST_MAPPED"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "command", "words"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_cannot_be_right_is_refused_at_once(make, command, words):
    s = make()
    with pytest.raises((tm.CommandError, tm.DeclarationError), match=words):
        command(s)


def test_a_transfer_that_is_waited_for_is_not_removed():
    s = pl.pair()
    up = s.f.create_xfer({i: N}, s.a[i], tm.CPU2GPU, tm.ASYNC, name="up")
    up.wait(name="done")
    before = s.f.program
    with pytest.raises(tm.CommandError, match="done waits for up: remove done first"):
        s.f.remove(up)
    assert s.f.program is before


def test_statements_that_share_a_block_loop_share_all_of_them():
    s = pl.blur()
    for stage in (s.bx, s.by):
        stage.split(c, 32, c0, c1).tag_gpu(blocks=[r, c0], threads=[c1])
    with pytest.raises(tm.CommandError, match="share the block loop r, but not c0"):
        s.f.order(s.bx, s.by, at=r)
    s.f.order(s.bx, s.by, at=c0)
    assert len(kernels(s.f.program)) == 1


# -- reductions of rows


def row_sums() -> SimpleNamespace:
    """s[i] = the sum of a[i, j], the terms in strips of 32."""
    f = tm.Function("row_sums", params=[N, M], assume="N >= 1")
    a = f.input("a", tm.float32, [N, M])
    s = f.reduction("s", {i: N}, {j: M}, tm.sum, a[i, j])
    f.outputs(s)
    s.update.split(j, 32, j0, j1)
    return SimpleNamespace(f=f, a=a, s=s)


def summed(s: SimpleNamespace) -> None:
    """The program is proven, and gives the sums of rows."""
    s.f.derive_transfers()
    report = s.f.check()
    assert report.ok, str(report)
    rows = np.arange(5 * 70, dtype=np.float32).reshape(5, 70) % 7
    np.testing.assert_array_equal(s.f.compile(device="simulator", sanitize=True)(rows), rows.sum(axis=1))


@pytest.mark.parametrize("combine", [tm.TREE, tm.ATOMIC])
def test_the_start_of_a_reduction_over_threads_runs_on_the_same_blocks(combine):
    s = row_sums()
    s.s.tag_gpu(blocks=[i], threads=[j1], combine=combine)
    assert loops_of(s, "s_init") == ["i:bx"]
    assert loops_of(s, "s_update") == ["i:bx", "j0", "j1:tx"]
    assert len(kernels(s.f.program)) == 2
    summed(s)


def test_the_start_of_a_reduction_runs_on_the_threads_that_it_has_along_their_axes():
    s = row_sums()
    s.s.split(i, 4, i0, i1)
    s.s.tag_gpu(blocks=[i0], threads=[i1, j1], combine=tm.ATOMIC)
    assert loops_of(s, "s_init") == ["i0:bx", "i1:ty"]
    summed(s)


def test_a_start_that_is_tagged_already_keeps_its_tags():
    s = row_sums()
    s.s.init.parallelize(i)
    s.s.update.tag_gpu(blocks=[i], threads=[j1], combine=tm.TREE)
    s.s.tag_gpu(blocks=[i], threads=[j1], combine=tm.ATOMIC)
    assert loops_of(s, "s_init") == ["i"] and not kernels(s.f.program)[0].statements[0].name.endswith("init")


@pytest.mark.parametrize("fused", [True, False], ids=["fuse", "order"])
def test_loops_whose_tags_differ_in_the_combination_alone_become_one_that_combines(fused):
    s = row_sums()
    s.s.update.tag_gpu(blocks=[i], threads=[j1], combine=tm.ATOMIC)
    s.s.init.tag_gpu(blocks=[i])
    if fused:
        s.s.init.fuse(s.s.update, i)
    else:
        s.f.order(s.s.init, s.s.update, at=i)
    (kernel,) = kernels(s.f.program)
    assert s.f.program.loops[kernel.first].tag == GpuBlock(0, Launch(), tm.ATOMIC)
    summed(s)


def test_loops_that_combine_in_different_ways_are_not_one_loop():
    s = row_sums()
    s.s.update.tag_gpu(blocks=[i], threads=[j1], combine=tm.ATOMIC)
    s.s.init.tag_gpu(blocks=[i], combine=tm.TREE)
    with pytest.raises(tm.CommandError, match="one loop has one tag"):
        s.f.order(s.s.init, s.s.update, at=i)


# -- copies at thread loops


@pytest.mark.parametrize("level", [c0, r1, c1], ids=["c0", "r1", "c1"])
def test_a_copy_at_a_thread_loop_is_the_one_of_the_block(level):
    """The halo of 2 is copied by all threads together, whichever loop of theirs is named."""
    s = tiled()
    s.by.copy(s.image, [y, x], at=level, into=tm.SHARED)
    s.f.derive_transfers()
    assert s.f.check().ok
    assert [str(extent) for extent in s.f.program.buffers["image_shared"].extents] == ["10", "34"]
    image = np.random.default_rng(1).random((21, 70), dtype=np.float32)
    result = s.f.compile(device="simulator", sanitize=True)(image)
    np.testing.assert_array_equal(result, s.f.evaluate(image=image))
