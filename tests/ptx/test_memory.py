"""What memory is to threads: where it ends, in which pieces it is read, and when others see what was stored."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.ptx.entry_points import Refused, gpu, kernel
from tests.ptx.test_threads import OWN, SEEDS, TILE, refused, values


def test_several_values_are_loaded_and_stored_at_once() -> None:
    body = """
        ld.global.v4.u8 {%r1, %r2, %r3, %r4}, [%rd0]; st.global.v4.u32 [%rd0+16], {%r4, %r3, %r2, %r1};
        ld.global.v2.f64 {%d1, %d2}, [%rd0+32]; add.f64 %d3, %d1, %d2; st.global.f64 [%rd0+48], %d3;
        ld.global.s16 %r5, [%rd0+2]; st.global.u32 [%rd0+56], %r5;
        ld.global.v2.b32 {_, %r6}, [%rd0]; st.global.u32 [%rd0+60], %r6;"""
    given = np.zeros(64, np.uint8)
    given[:8] = [1, 2, 3, 0xFF, 9, 0, 0, 0]
    given.view(np.float64)[4:6] = 1.5, 2.0
    (found,) = gpu().run(kernel(body), given)
    words = found.view(np.uint32)
    assert words[4:8].tolist() == [255, 3, 2, 1]
    assert found.view(np.float64)[6] == 3.5
    assert words[14:].view(np.int32).tolist() == [-253, 9]


def test_generic_addresses_reach_every_space() -> None:
    body = """
        .local .align 4 .b8 own[16];
        mov.u64 %rd1, tile; cvta.shared.u64 %rd1, %rd1; st.u32 [%rd1+4], 5; ld.shared.u32 %r1, [tile+4];
        mov.u64 %rd2, own; cvta.local.u64 %rd3, %rd2; st.u32 [%rd3], 6; ld.local.u32 %r2, [%rd2];
        isspacep.shared %p1, %rd1; isspacep.shared %p2, %rd3; selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 1, 0, %p2;
        cvta.to.shared.u64 %rd4, %rd1; ld.shared.u32 %r5, [%rd4+4];
        st.u32 [%rd0], %r1; st.global.u32 [%rd0+4], %r2; st.global.v2.u32 [%rd0+8], {%r3, %r4};
        st.global.u32 [%rd0+16], %r5;"""
    assert values(body, np.zeros(5, np.uint32), block=1) == [5, 6, 1, 0, 5]


def test_variables_of_a_module_have_their_values() -> None:
    declared = ".global .align 4 .u32 table[3] = {7, -1, 9}; .const .align 8 .f64 half = 0d3FE0000000000000;" + TILE
    body = """ld.global.u32 %r1, [table+8]; ld.const.f64 %d1, [half]; cvt.rn.f32.f64 %f1, %d1;
        st.global.u32 [%rd0], %r1; st.global.f32 [%rd0+4], %f1;"""
    (found,) = gpu().run(kernel(body, 1, declared), np.zeros(2, np.uint32))
    assert found[0] == 9 and found.view(np.float32)[1] == 0.5


def test_shared_memory_of_the_launch_lies_behind_all_other() -> None:
    declared = TILE + ".extern .shared .align 16 .b8 more[];"
    body = f"""{OWN} mov.u32 %r4, more; add.u32 %r4, %r4, %r2; st.shared.u32 [%r4], %r0; st.shared.u32 [%r1], 1;
        ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd10], %r5; mov.u32 %r6, %dynamic_smem_size;"""
    (found,) = gpu().run(kernel(body, 1, declared), np.zeros(32, np.uint32), block=32, shared=128)
    assert found.tolist() == list(range(32))
    with pytest.raises(Refused, match="of shared memory, which has"):
        gpu("held=0").run(kernel(body, 1, declared), np.zeros(32, np.uint32), block=32, shared=124)


def test_more_shared_memory_than_usual_must_be_asked_for() -> None:
    with pytest.raises(Refused, match="more shared memory than it was allowed"):
        gpu().run(kernel("", 1), np.zeros(1, np.uint32), shared=50 << 10)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("ld.global.u32 %r1, [%rd0+256];", "0 bytes after the end of the memory of argument 1, p0 (256 bytes"),
        ("st.global.u32 [%rd0+300], 5;", "44 bytes after the end of the memory of argument 1"),
        ("ld.global.v2.u32 {%r1, %r2}, [%rd0+252];", "not aligned"),
        ("ld.global.v2.u32 {%r1, %r2}, [%rd0+256];", "reads 8 bytes"),
        ("ld.global.u32 %r1, [%rd0-4];", "not memory of the kernel"),
        ("ld.global.u32 %r1, [%rd0+2];", "is not aligned"),
        ("mov.u64 %rd5, 64; ld.global.u32 %r1, [%rd5];", "before all memory"),
        ("ld.shared.u32 %r1, [tile];", "which nobody has written"),
        ("ld.shared.u32 %r1, [tile+8192];", "of shared memory, which has"),
        ("st.shared.u32 [0], 1;", "beside its arrays"),
        (".local .align 4 .b8 own[16]; st.local.u32 [own+16], 1;", "of local memory, which has 16"),
        ("red.global.add.u32 [%rd0+256], 1;", "changes 4 bytes"),
        ("ld.global.nc.u32 %r1, [%rd0]; st.global.u32 [%rd0], 1;", "which the kernel reads through ld.global.nc"),
        ("st.global.u32 [%rd0], 1; ld.global.nc.u32 %r1, [%rd0];", "through ld.global.nc, which the kernel writes"),
    ],
)
def test_what_a_thread_must_not_touch_is_refused_with_its_place(body: str, words: str) -> None:
    said = refused(body, block=1)
    assert words in said
    assert said.startswith("kernel k, thread (0, 0, 0) of block (0, 0, 0), line ")
    assert body.rpartition("; ")[2].rstrip(";") in said


def test_memory_that_was_freed_is_nobodys() -> None:
    device = gpu("streams=lazy")
    place = device.allocate(64)
    device.free(place)
    with pytest.raises(Refused, match="not memory of the kernel"):
        device.launch(kernel("ld.global.u32 %r1, [%rd0];"), [ctypes.c_uint64(place)])


# -- the order in which stores are seen

#: The last block sums what all blocks have stored, as a kernel of ours does: a ticket between two fences.
LAST_BLOCK = """
    .reg .b32 %x<9>;
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;
    ld.global.u32 %r9, [%rd2];
    setp.eq.u32 %p1, %r0, 1; add.u32 %r3, %r1, 1; @%p1 st.global.u32 [%rd2], %r3;
    bar.sync 0;
    setp.ne.u32 %p2, %r0, 0; @%p2 bra MEET;
    RELEASE
    atom.global.add.u32 %r4, [%rd0], 1; sub.u32 %r5, %r2, 1; setp.eq.u32 %p3, %r4, %r5; selp.u32 %r6, 1, 0, %p3;
    st.shared.u32 [tile], %r6;
    ACQUIRE
    MEET: bar.sync 0;
    ld.shared.u32 %r7, [tile]; setp.eq.u32 %p4, %r7, 0; @%p4 bra END; @%p2 bra END;
    mov.u32 %r8, 0; mov.u32 %r10, 0; mov.u64 %rd3, %rd1;
    SUM: ld.global.u32 %r11, [%rd3]; add.u32 %r8, %r8, %r11; add.u64 %rd3, %rd3, 4; add.u32 %r10, %r10, 1;
    setp.lt.u32 %p5, %r10, %r2; @%p5 bra SUM;
    st.global.u32 [%rd0+4], %r8; END:"""
BLOCKS = 6
MANY = range(40)


def sums(release: str, acquire: str) -> set[int]:
    """What the last block finds, by the seed."""
    body = LAST_BLOCK.replace("RELEASE", release).replace("ACQUIRE", acquire)
    found = set()
    for seed in MANY:
        given = np.zeros(2, np.uint32), np.zeros(BLOCKS, np.uint32)
        found.add(int(gpu(f"seed={seed}").run(kernel(body, 2, TILE), *given, block=32, grid=BLOCKS)[0][1]))
    return found


@pytest.mark.parametrize("fence", ["membar.gl;", "fence.acq_rel.gpu;", "fence.sc.sys;"])
def test_the_last_block_sees_all_that_was_stored_before_a_fence(fence: str) -> None:
    assert sums(fence, fence) == {BLOCKS * (BLOCKS + 1) // 2}


def test_without_the_fence_before_the_ticket_some_seed_finds_another_sum() -> None:
    assert len(sums("", "membar.gl;")) > 1
    assert len(sums("membar.cta;", "membar.gl;")) > 1


def test_without_the_fence_after_the_ticket_some_seed_finds_an_old_value() -> None:
    assert len(sums("membar.gl;", "")) > 1


@pytest.mark.parametrize("order", ["acq_rel", "relaxed"])
def test_an_atomic_operation_orders_stores_if_it_says_so(order: str) -> None:
    body = (
        LAST_BLOCK.replace("atom.global.add", f"atom.global.{order}.gpu.add")
        .replace("RELEASE", "")
        .replace("ACQUIRE", "")
    )
    found = set()
    for seed in MANY:
        given = np.zeros(2, np.uint32), np.zeros(BLOCKS, np.uint32)
        found.add(int(gpu(f"seed={seed}").run(kernel(body, 2, TILE), *given, block=32, grid=BLOCKS)[0][1]))
    assert (found == {BLOCKS * (BLOCKS + 1) // 2}) == (order == "acq_rel")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_thread_sees_its_own_stores_in_their_order(seed: int) -> None:
    body = f"""{OWN} st.global.u32 [%rd10], 1; st.global.u8 [%rd10+1], 2; ld.global.u32 %r3, [%rd10];
        atom.global.add.u32 %r4, [%rd10], 1; st.global.u32 [%rd10], %r4; ld.global.u32 %r5, [%rd10];
        add.u32 %r5, %r5, %r3; st.global.u32 [%rd10], %r5;"""
    assert values(body, np.zeros(32, np.uint32), options=f"seed={seed} held=100") == [2 * 0x201] * 32


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_shows_a_block_what_its_threads_stored_to_global_memory(seed: int) -> None:
    body = f"""{OWN} st.global.u32 [%rd10], %r0; BARRIER
        xor.b32 %r5, %r2, 124; cvt.u64.u32 %rd5, %r5; add.u64 %rd5, %rd0, %rd5;
        ld.global.u32 %r6, [%rd5]; bar.sync 0; st.global.u32 [%rd10], %r6;"""
    given = np.full(32, 99, np.uint32)
    assert values(body.replace("BARRIER", "bar.sync 0;"), given, options=f"seed={seed}") == list(range(31, -1, -1))
    assert 99 in values(body.replace("BARRIER", ""), given, options=f"seed={seed} held=100 released=0")


def test_one_thread_waits_until_another_block_has_stored() -> None:
    body = """
        mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAITS;
        st.global.u32 [%rd0], 7; membar.gl; st.volatile.global.u32 [%rd0+4], 1; bra END;
        WAITS: ld.volatile.global.u32 %r2, [%rd0+4]; setp.eq.u32 %p2, %r2, 0; @%p2 bra WAITS; MEMBAR
        ld.global.u32 %r3, [%rd0]; st.global.u32 [%rd0+8], %r3; END:"""
    for seed in MANY:
        given = np.zeros(3, np.uint32)
        assert (
            values(body.replace("MEMBAR", "membar.gl;"), given, options=f"seed={seed} blocks=2", block=1, grid=2)[2]
            == 7
        )
