"""What threads do together: barriers, warps, atomics, copies that arrive later, calls; and what of it is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ptx.entry_points import HEADER, Refused, gpu, kernel

SEEDS = range(8)
LANES = np.arange(32, dtype=np.uint32)
#: %r0: the thread; %rd10: the place of its own word in the first array; %rd11 in the second; %r1: in shared memory.
OWN = """
    mov.u32 %r0, %tid.x; mul.wide.u32 %rd20, %r0, 4; add.u64 %rd10, %rd0, %rd20; shl.b32 %r2, %r0, 2;
    mov.u32 %r1, tile; add.u32 %r1, %r1, %r2;"""
TILE = ".shared .align 16 .b8 tile[4096];"


def refused(
    body: str, *arrays: np.ndarray, options: str = "seed=1", block: int = 32, grid: int = 1, declared: str = TILE
) -> str:
    given = arrays or (np.zeros(64, np.uint32),)
    with pytest.raises(Refused) as found:
        gpu(options).run(kernel(body, len(given), declared), *given, block=block, grid=grid)
    return str(found.value)


def values(body: str, given: np.ndarray, *, options: str = "seed=1", block: int = 32, grid: int = 1) -> list[int]:
    return gpu(options).run(kernel(body, 1, TILE), given, block=block, grid=grid)[0].tolist()


# -- the threads of a block


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_lets_threads_see_what_others_have_stored(seed: int) -> None:
    body = f"""{OWN}
        ld.global.u32 %r3, [%rd10]; st.shared.u32 [%r1], %r3;
        bar.sync 0;
        mov.u32 %r4, tile; sub.u32 %r5, 252, %r2; add.u32 %r4, %r4, %r5; ld.shared.u32 %r6, [%r4];
        st.global.u32 [%rd10], %r6;"""
    given = np.arange(64, dtype=np.uint32)
    assert values(body, given, options=f"seed={seed}", block=64) == given[::-1].tolist()
    said = refused(body.replace("bar.sync 0;", ""), given, options=f"seed={seed} held=100 released=0", block=64)
    assert "which nobody has written, or not so that this thread must see it" in said


@pytest.mark.parametrize(("kind", "expected"), [("popc.u32", 20), ("and.pred", 0), ("or.pred", 1)])
def test_a_barrier_counts_and_combines_predicates(kind: str, expected: int) -> None:
    result = "%r5" if kind == "popc.u32" else "%p2"
    kept = "" if kind == "popc.u32" else "selp.u32 %r5, 1, 0, %p2;"
    body = f"{OWN} setp.lt.u32 %p1, %r0, 20; bar.red.{kind} {result}, 1, %p1; {kept} st.global.u32 [%rd10], %r5;"
    assert values(body, np.zeros(64, np.uint32), block=64) == [expected] * 64


def test_some_threads_arrive_at_a_barrier_without_waiting() -> None:
    body = f"""{OWN} setp.lt.u32 %p1, %r0, 32;
        @%p1 bra WAITS;
        st.shared.u32 [%r1], %r0; bar.arrive 2, 64; bra END;
        WAITS: bar.sync 2, 64; ld.shared.u32 %r5, [%r1+128]; st.global.u32 [%rd10], %r5; END:"""
    assert values(body, np.zeros(64, np.uint32), block=64)[:32] == list(range(32, 64))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"{OWN} setp.eq.u32 %p1, %r0, 0; @%p1 bra END; bar.sync 0; END:", "never come to this barrier"),
        (f"{OWN} setp.eq.u32 %p1, %r0, 0; @%p1 bra A; bar.sync 0; bra END; A: bar.sync 0; END:", "waits elsewhere"),
        (f"{OWN} setp.eq.u32 %p1, %r0, 0; @%p1 bra A; bar.sync 0; A: bar.sync 1;", "never come to this barrier"),
        ("bar.sync 0, 48;", "a part of a warp"),
        ("trap;", "gives up"),
    ],
)
def test_threads_that_do_not_meet_are_refused(body: str, words: str) -> None:
    assert words in refused(body)


def test_a_kernel_that_does_not_end_is_refused() -> None:
    assert "does not end within 10000 instructions" in refused("L: bra L;", options="steps=10000")


# -- the threads of a warp


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("shfl.sync.down.b32 %r5|%p1, %r0, 3, 31, -1;", np.where(LANES < 29, LANES + 3, LANES)),
        ("shfl.sync.up.b32 %r5|%p1, %r0, 3, 0, -1;", np.where(LANES >= 3, LANES - 3, LANES)),
        ("shfl.sync.bfly.b32 %r5|%p1, %r0, 5, 31, -1;", LANES ^ 5),
        ("shfl.sync.idx.b32 %r5|%p1, %r0, 9, 31, -1;", np.full(32, 9)),
        ("shfl.sync.idx.b32 %r5, %r0, 9, 6175, -1;", LANES // 8 * 8 + 1),  # in pieces of 8: (32 - 8) << 8 | 31
        ("shfl.sync.down.b32 %r5, %r0, 3, 6175, -1;", np.where(LANES % 8 < 5, LANES + 3, LANES)),
        ("setp.lt.u32 %p1, %r0, 4; vote.sync.ballot.b32 %r5, %p1, -1;", np.full(32, 15)),
        ("setp.lt.u32 %p1, %r0, 4; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r5, 1, 0, %p2;", np.full(32, 1)),
        ("setp.lt.u32 %p1, %r0, 4; vote.sync.all.pred %p2, %p1, -1; selp.u32 %r5, 1, 0, %p2;", np.full(32, 0)),
        ("setp.lt.u32 %p1, %r0, 4; vote.sync.uni.pred %p2, !%p1, -1; selp.u32 %r5, 1, 0, %p2;", np.full(32, 0)),
        ("redux.sync.add.u32 %r5, %r0, -1;", np.full(32, 496)),
        ("redux.sync.max.s32 %r5, %r0, -1;", np.full(32, 31)),
        ("redux.sync.xor.b32 %r5, %r0, -1;", np.full(32, 0)),
        ("mov.u32 %r5, %lanemask_lt;", (1 << LANES.astype(np.int64)) - 1),
    ],
)
def test_lanes_exchange_values(instruction: str, expected: np.ndarray) -> None:
    body = f"{OWN} {instruction} st.global.u32 [%rd10], %r5;"
    assert values(body, np.zeros(32, np.uint32)) == expected.tolist()


def test_a_shuffle_says_whether_the_lane_is_in_range() -> None:
    body = f"{OWN} shfl.sync.down.b32 %r4|%p1, %r0, 3, 31, -1; selp.u32 %r5, 1, 0, %p1; st.global.u32 [%rd10], %r5;"
    assert values(body, np.zeros(32, np.uint32)) == [1] * 29 + [0] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_of_a_warp_orders_shared_memory_and_a_shuffle_does_not(seed: int) -> None:
    body = f"""{OWN} st.shared.u32 [%r1], %r0; bar.warp.sync -1;
        mov.u32 %r4, tile; xor.b32 %r5, %r2, 4; add.u32 %r4, %r4, %r5; ld.shared.u32 %r6, [%r4];
        st.global.u32 [%rd10], %r6;"""
    assert values(body, np.zeros(32, np.uint32), options=f"seed={seed}") == (LANES ^ 1).tolist()
    said = refused(
        body.replace("bar.warp.sync -1;", "shfl.sync.idx.b32 %r7, %r0, 0, 31, -1;"),
        options=f"seed={seed} held=100 released=0",
    )
    assert "nobody has written" in said


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("shfl.sync.down.b32 %r5, %r0, 1, 31, 1;", "the mask leaves out the thread itself"),
        (
            f"{OWN} setp.lt.u32 %p1, %r0, 16; @%p1 bra L; shfl.sync.down.b32 %r5, %r0, 1, 31, -1; L: bar.sync 0;",
            "mask 0xffffffff",
        ),
        (
            f"{OWN} setp.lt.u32 %p1, %r0, 16; @%p1 bra L; shfl.sync.down.b32 %r5, %r0, 1, 31, -1; bra END;"
            "L: shfl.sync.down.b32 %r5, %r0, 1, 31, -1; END:",
            "a deadlock",
        ),
    ],
)
def test_masks_that_do_not_meet_are_refused(body: str, words: str) -> None:
    assert words in refused(body)


def test_halves_of_a_warp_meet_by_their_own_masks() -> None:
    body = f"""{OWN} setp.lt.u32 %p1, %r0, 16; @%p1 bra L;
        shfl.sync.idx.b32 %r5, %r0, 20, 31, 0xffff0000; bra END;
        L: shfl.sync.idx.b32 %r5, %r0, 3, 31, 0xffff; END: st.global.u32 [%rd10], %r5;"""
    assert values(body, np.zeros(32, np.uint32)) == [3] * 16 + [20] * 16


# -- atomics


@pytest.mark.parametrize(
    ("instruction", "first", "expected"),
    [
        ("atom.global.add.u32 %r5, [%rd0], 3", 5, 5 + 3 * 64),
        ("red.global.add.u32 [%rd0], 3", 5, 5 + 3 * 64),
        ("atom.global.max.s32 %r5, [%rd0], %r0", 5, 31),
        ("atom.global.min.s32 %r5, [%rd0], -7", 5, 2**32 - 7),
        ("red.global.or.b32 [%rd0], %r0", 64, 64 | 31),
        ("red.global.and.b32 [%rd0], 6", 12, 4),
        ("red.global.xor.b32 [%rd0], %r0", 12, 12),
        ("atom.global.inc.u32 %r5, [%rd0], 9", 0, 4),
        ("atom.global.dec.u32 %r5, [%rd0], 9", 0, 6),
        ("atom.global.exch.b32 %r5, [%rd0], 77", 0, 77),
        ("atom.global.cas.b32 %r5, [%rd0], 5, 9", 5, 9),
    ],
)
def test_threads_of_two_blocks_change_a_number(instruction: str, first: int, expected: int) -> None:
    for seed in SEEDS:
        found = values(f"{OWN} {instruction};", np.array([first], np.uint32), options=f"seed={seed}", grid=2)
        assert found == [expected]


def test_an_atomic_operation_returns_what_was_there() -> None:
    body = f"{OWN} add.u64 %rd11, %rd0, 256; atom.global.add.u32 %r5, [%rd11], 1; st.global.u32 [%rd10], %r5;"
    found = values(body, np.zeros(65, np.uint32), block=64)
    assert sorted(found[:64]) == list(range(64)) and found[64] == 64
    assert found[:64] != list(range(64))  # in another order


def test_sums_of_floats_in_shared_memory() -> None:
    body = f"""{OWN} setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.f32 [tile], 0f00000000; bar.sync 0;
        atom.shared.add.f32 %f1, [tile], 0f3F000000; bar.sync 0;
        ld.shared.u32 %r5, [tile]; st.global.u32 [%rd10], %r5;"""
    assert np.array(values(body, np.zeros(32, np.uint32)), np.uint32).view(np.float32).tolist() == [16.0] * 32


# -- copies to shared memory

COPY = """
    cp.async.ca.shared.global [%r1], [%rd10], 4; cp.async.commit_group;
    WAIT
    ld.shared.u32 %r5, [%r1]; add.u32 %r5, %r5, 1; st.global.u32 [%rd10], %r5;"""


@pytest.mark.parametrize("wait", ["cp.async.wait_all;", "cp.async.wait_group 0;"])
def test_a_copy_has_arrived_when_it_was_waited_for(wait: str) -> None:
    for seed in SEEDS:
        assert values(OWN + COPY.replace("WAIT", wait), LANES, options=f"seed={seed}") == (LANES + 1).tolist()


@pytest.mark.parametrize("wait", ["", "cp.async.wait_group 1;"])
def test_a_copy_that_is_not_waited_for_has_not_arrived(wait: str) -> None:
    said = refused(OWN + COPY.replace("WAIT", wait), LANES, options="seed=1 late=100")
    assert "nobody has written" in said


def test_a_copy_may_arrive_before_others_have_read_what_was_there() -> None:
    body = f"""{OWN} st.shared.u32 [%r1], 5; bar.sync 0;
        xor.b32 %r4, %r2, 124; mov.u32 %r3, tile; add.u32 %r4, %r3, %r4; ld.shared.u32 %r6, [%r4];
        BARRIER
        cp.async.ca.shared.global [%r1], [%rd10], 4; cp.async.wait_all; st.global.u32 [%rd10], %r6;"""
    for seed in SEEDS:
        assert values(body.replace("BARRIER", "bar.sync 0;"), LANES, options=f"seed={seed}") == [5] * 32
    without = [values(body.replace("BARRIER", ""), LANES, options=f"seed={seed}") for seed in SEEDS]
    assert any(each != [5] * 32 for each in without)


def test_a_copy_that_nobody_waits_for_is_refused() -> None:
    body = f"{OWN} cp.async.ca.shared.global [%r1], [%rd10], 4;"
    assert "were not waited for" in refused(body, LANES, options="late=100")


def test_a_copy_may_be_filled_with_zeros() -> None:
    body = f"""{OWN} mov.u32 %r9, 0; setp.lt.u32 %p1, %r0, 4; selp.u32 %r9, 4, 0, %p1;
        cp.async.ca.shared.global [%r1], [%rd10], 4, %r9; cp.async.wait_all;
        ld.shared.u32 %r5, [%r1]; st.global.u32 [%rd10], %r5;"""
    assert values(body, LANES + 1) == [1, 2, 3, 4] + [0] * 28


# -- control


def test_functions_are_called_with_parameters_in_memory() -> None:
    function = """
    .func (.param .b32 back) twice(.param .b32 given) {
        .reg .b32 %a<3>; ld.param.b32 %a0, [given]; add.u32 %a1, %a0, %a0; st.param.b32 [back], %a1; ret; }"""
    body = f"""{OWN}
        {{ .param .b32 x; st.param.b32 [x], %r0; .param .b32 y; call.uni (y), twice, (x); ld.param.b32 %r5, [y]; }}
        st.global.u32 [%rd10], %r5;"""
    found = gpu().run(kernel(body, 1, TILE + function), np.zeros(32, np.uint32), block=32)[0]
    assert found.tolist() == (2 * LANES).tolist()


def test_a_branch_by_a_table() -> None:
    body = f"""{OWN} and.b32 %r4, %r0, 3; T: .branchtargets A, B, A, C;
        brx.idx %r4, T;
        A: mov.u32 %r5, 10; bra END;  B: mov.u32 %r5, 20; bra END;  C: mov.u32 %r5, 30;
        END: st.global.u32 [%rd10], %r5;"""
    assert values(body, np.zeros(32, np.uint32)) == [10, 20, 10, 30] * 8
    assert "has no number" in refused(body.replace("and.b32 %r4, %r0, 3", "mov.u32 %r4, %r0"))


def test_a_guard_leaves_an_instruction_out() -> None:
    body = f"{OWN} setp.lt.u32 %p1, %r0, 5; @%p1 st.global.u32 [%rd10], 1; @!%p1 st.global.u32 [%rd10], 2;"
    assert values(body, np.zeros(32, np.uint32)) == [1] * 5 + [2] * 27


def test_threads_and_blocks_know_their_place() -> None:
    body = """
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
        mul.wide.u32 %rd5, %r4, 4; add.u64 %rd5, %rd0, %rd5; mov.u32 %r6, %nctaid.x; mad.lo.u32 %r7, %r6, 100, %r4;
        st.global.u32 [%rd5], %r7;"""
    assert values(body, np.zeros(96, np.uint32), grid=3) == [300 + n for n in range(96)]


def test_a_text_that_is_no_module_is_refused() -> None:
    for text in ("", HEADER, HEADER + ".visible .entry other() { ret; }"):
        with pytest.raises(Refused, match="no kernel k"):
            gpu().launch(text, [])
    with pytest.raises(Refused, match="has no end"):
        gpu().load(HEADER + ".visible .entry k() { ret;")
