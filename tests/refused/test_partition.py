"""Partitioned programs that must be refused, each with its kind and its smallest counterexample, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

import tiramisu_py as tm
from tests.programs.ranks.stories import refusal

R, C, G = tm.params("R C G")
r, c = tm.iters("r c")

Point = tuple[str, tuple[int, ...]] | None


def program() -> SimpleNamespace:
    """q averages two rows of p, which doubles the image: rows below G on a GPU, the others on cores."""
    f = tm.Function("program", params=[R, C, G], assume="0 <= G <= R and C >= 1")
    image = f.input("image", tm.float32, [R + 1, C])
    p = f.computation("p", {r: R + 1, c: C}, 2 * image[r, c])
    q = f.computation("q", {r: R, c: C}, (p[r, c] + p[r + 1, c]) / 2)
    f.outputs(q)
    return SimpleNamespace(f=f, image=image, p=p, q=q)


def by_hand(*left_out: str, late: bool = False) -> SimpleNamespace:
    """The transfers that derive_transfers would find, by hand, without those `left_out`.

    Row G of p is computed on cores, and read on the GPU: `halo`. With `late` it is copied before it is computed.
    """
    s = program()
    f = s.f
    s.p0, s.p1 = s.p.partition(r, [G], [tm.gpu(), tm.cores()])
    s.q0, s.q1 = s.q.partition(r, [G], [tm.gpu(), tm.cores()])
    s.up = f.create_xfer({r: G, c: C}, s.image[r, c], tm.CPU2GPU, name="up").collapse_many(r, c)
    s.halo = f.create_xfer({r: (G, G + 1), c: C}, s.p[r, c], tm.CPU2GPU, name="halo").collapse_many(r, c)
    s.down = f.create_xfer({r: G, c: C}, s.q[r, c], tm.GPU2CPU, tm.ASYNC, name="down").collapse_many(r, c)
    s.finished = s.down.wait(name="finished")
    around = [s.halo, s.p1] if late else [s.p1, s.halo]
    f.order(s.up, s.p0, *around, s.q0, s.down, s.q1, s.finished, at=tm.root)
    for name in left_out:
        f.remove(f[name])
    return s


def gpu_memory() -> SimpleNamespace:
    """All of p is kept on the GPU, and cores read it."""
    s = program()
    s.p.partition(r, [G], [tm.gpu(), tm.gpu()])
    s.q.partition(r, [G], [tm.gpu(), tm.cores()])
    s.p.store_in(tm.Buffer("kept", [R + 1, C], tm.float32, memory=tm.GPU_MEMORY), [r, c])
    return s


def recurrence() -> SimpleNamespace:
    """Each row needs the one before: the threads that share the level would not be in order."""
    f = tm.Function("sums", params=[R, G], assume="0 <= G <= R")
    a = f.input("a", tm.float32, [R])
    q = f.computation("q", {r: R}, lambda q: tm.select(r == 0, a[r], q[r - 1] + a[r]))
    f.outputs(q)
    q.partition(r, [G], [tm.cores(parallel=False), tm.cores()])
    return SimpleNamespace(f=f)


def on_ranks() -> SimpleNamespace:
    """Rows from G on are another rank's, and nothing is sent."""
    s = program()
    for computation in (s.p, s.q):
        computation.partition(r, [G], [tm.cores(ranks=0), tm.cores(ranks=1)])
    return s


CASES: list[tuple[str, Callable[[], SimpleNamespace], str, dict[str, int], Point, Point, str]] = [
    (
        "nothing goes up",
        lambda: by_hand("up"),
        "communication",
        {"R": 1, "C": 1, "G": 1},
        ("image", (0, 0)),
        ("p", (0, 0)),
        "no transfer brings it",
    ),
    (
        "the halo between the parts is missing",
        lambda: by_hand("halo"),
        "communication",
        {"R": 1, "C": 1, "G": 1},
        ("p", (1, 0)),
        ("q", (0, 0)),
        "q[0, 0] reads p[1, 0] in the memory of GPU 0, but it is only in host memory",
    ),
    (
        "the halo is copied before it is computed",
        lambda: by_hand(late=True),
        "order",
        {"R": 0, "C": 1, "G": 0},
        ("p", (0, 0)),
        ("p", (0, 0)),
        "the transfer halo copies p[0, 0] before it is computed",
    ),
    (
        "nothing comes down",
        lambda: by_hand("finished", "down"),
        "communication",
        {"R": 1, "C": 1, "G": 1},
        ("q", (0, 0)),
        ("q", (0, 0)),
        "the caller finds q[0, 0] in host memory, but it is only in the memory of GPU 0",
    ),
    (
        "the wait is left out",
        lambda: by_hand("finished"),
        "race",
        {"R": 1, "C": 1, "G": 1},
        ("q", (0, 0)),
        None,
        "the function returns, and nothing waits for the transfer down of q[0, 0]",
    ),
    ("cores read memory of a GPU", gpu_memory, "reach", {}, None, None, "q_1 reads kept on the host"),
    ("a recurrence on threads", recurrence, "race", {"R": 2, "G": 0}, ("q", (0,)), ("q", (1,)), "parallel loop r"),
    (
        "no message between ranks",
        on_ranks,
        "communication",
        {"R": 1, "C": 1, "G": 0},
        ("q", (0, 0)),
        ("q", (0, 0)),
        "the caller finds q[0, 0] on rank 0, but it is only on rank 1: no message brings it",
    ),
]


@pytest.mark.parametrize(("make", "kind", "params", "writer", "reader", "words"), [case[1:] for case in CASES],
                         ids=[case[0] for case in CASES])  # fmt: skip
def test_a_wrong_program_is_refused_with_its_smallest_counterexample(
    make: Callable[[], SimpleNamespace], kind: str, params: dict[str, int], writer: Point, reader: Point, words: str
) -> None:
    violation = refusal(make().f)
    assert violation.kind == kind
    assert violation.witness is not None
    assert violation.witness.params == params
    if kind != "reach":
        assert violation.witness.writer == writer
    assert reader is None or violation.witness.reader == reader
    assert words in violation.message


def test_the_right_program_is_proven() -> None:
    """What the others leave out is all that they lack."""
    assert by_hand().f.check().ok


def test_a_violation_names_the_partition_that_brought_it_about() -> None:
    assert refusal(recurrence().f).command == "q.partition(r, [G], [tm.cores(parallel=False), tm.cores()])"
    report = on_ranks().f.check()
    assert {violation.command for violation in report.violations} <= {
        f"{name}.partition(r, [G], [tm.cores(ranks=0), tm.cores(ranks=1)])" for name in "pq"
    }


TWO = [tm.gpu(), tm.cores()]
RANGES = [
    ([(0, G), (40, R)], "q[40, 0] is in two parts, (0, G) and (40, R), at R = 41, C = 1, G = 41"),
    ([(0, G), (G + 2, R)], "q[0, 0] is in no part, of (0, G), (G + 2, R), at R = 1, C = 1, G = 0"),
    ([(1, G), (G, R)], "q[0, 0] is in no part, of (1, G), (G, R), at R = 1, C = 1, G = 1"),
    ([(0, G), (G - 3, R)], "q[0, 0] is in two parts, (0, G) and (G - 3, R), at R = 1, C = 1, G = 1"),
    ([(0, 5), (4, 2 * G)], "q[4, 0] is in two parts, (0, 5) and (4, 2 * G), at R = 5, C = 1, G = 3"),
]


@pytest.mark.parametrize(("ranges", "words"), RANGES, ids=["overlap", "gap", "gap below", "common rows", "both"])
def test_ranges_that_overlap_or_leave_a_gap_are_refused_by_the_command(ranges: list[object], words: str) -> None:
    s = program()
    before = s.f.program
    with pytest.raises(tm.CommandError) as caught:
        s.q.partition(r, ranges, TWO)
    assert words in str(caught.value)
    assert s.f.program is before


@pytest.mark.parametrize(("ranges", "words"), RANGES, ids=["overlap", "gap", "gap below", "common rows", "both"])
def test_no_smaller_sizes_have_a_counterexample(ranges: list[tuple[object, object]], words: str) -> None:
    """By enumeration of all small sizes: those that the command names are the first that have such a row."""
    twice, wrong = "two parts" in words, []
    for rows in range(46):
        for split in range(rows + 1):
            spans = [range(*(int(eval(str(bound), {"R": rows, "G": split})) for bound in one)) for one in ranges]
            for row in range(rows):
                count = sum(row in span for span in spans)
                if count > 1 if twice else count == 0:
                    wrong.append((rows + split, f"q[{row}, 0]", f"at R = {rows}, C = 1, G = {split}"))
    least = min(total for total, *_ in wrong)
    assert any(row in words and at in words for total, row, at in wrong if total == least)
