"""fuse(..., shift=True): the least shifts that keep dependences, beside a search through all small ones."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.errors import CommandError

N, M = tm.params("N M")
i, j, i0, i1, k = tm.iters("i j i0 i1 k")

Offset = tuple[int, int]


def stencil(offsets: list[Offset]) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """q reads p at these offsets, from -2 to 2."""
    f = tm.Function("stencil", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.int32, [N + 4, M + 4])
    p = f.computation("p", {i: N + 4, j: M + 4}, a[i, j] * 2)
    total = p[i + 2 + offsets[0][0], j + 2 + offsets[0][1]]
    for di, dj in offsets[1:]:
        total = total + p[i + 2 + di, j + 2 + dj]
    q = f.computation("q", {i: N, j: M}, total)
    f.outputs(q)
    return f, p, q


def least(distances: list[Offset]) -> Offset:
    """The least shifts, the outer one first, after which every value exists when it is read."""
    candidates = sorted(product(range(9), repeat=2))
    return next(s for s in candidates if all((s[0] - di, s[1] - dj) >= (0, 0) for di, dj in distances))


def summed(a: np.ndarray, offsets: list[Offset]) -> np.ndarray:
    n, m = a.shape[0] - 4, a.shape[1] - 4
    return sum(2 * a[2 + di : 2 + di + n, 2 + dj : 2 + dj + m] for di, dj in offsets)


@pytest.mark.parametrize("seed", range(12))
def test_the_least_shifts_of_each_loop_are_found(seed: int) -> None:
    choice = random.Random(seed)
    offsets = [(choice.randint(-2, 2), choice.randint(-2, 2)) for _ in range(choice.randint(1, 4))]
    f, p, q = stencil(offsets)
    q.fuse(p, j, shift=True)
    outer, inner = least([(di + 2, dj + 2) for di, dj in offsets])
    expected = [
        "q.fuse(p, j)",
        *([f"q.shift(i, {outer})"] if outer else []),
        *([f"q.shift(j, {inner})"] if inner else []),
    ]
    assert [str(command) for command in f.commands] == expected
    kernel = f.compile()
    for n, m in ((1, 1), (1, 5), (6, 2), (7, 9)):
        a = np.random.default_rng(n).integers(-99, 99, (n + 4, m + 4), dtype=np.int32)
        np.testing.assert_array_equal(kernel(a), summed(a, offsets))


def test_a_producer_joins_its_reader_earlier() -> None:
    f, p, q = stencil([(0, 0), (1, -1)])
    p.fuse(q, j, shift=True)
    assert [str(command) for command in f.commands] == ["p.fuse(q, j)", "p.shift(i, -3)", "p.shift(j, -1)"]
    a = np.random.default_rng(1).integers(-99, 99, (9, 11), dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(a), summed(a, [(0, 0), (1, -1)]))


def test_a_chain_is_fused_one_after_another() -> None:
    f = tm.Function("chain", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N + 6])
    stage: tm.Input | tm.Computation = a
    for number in range(3):
        last, room = stage, 4 - 2 * number
        stage = f.computation(f"s{number}", {i: N + room}, last[i] + last[i + 2])
    f.outputs(stage)
    f["s1"].fuse(f["s0"], i, shift=True)
    f["s2"].fuse(f["s1"], i, shift=True)
    assert [str(c) for c in f.commands if "shift" in str(c)] == ["s1.shift(i, 2)", "s2.shift(i, 4)"]
    given = np.arange(17, dtype=np.int32) ** 2
    expected = given
    for _ in range(3):
        expected = expected[:-2] + expected[2:]
    np.testing.assert_array_equal(f.compile()(given), expected)


def test_a_distance_without_a_bound_inside_is_kept_by_the_loop_outside() -> None:
    f = tm.Function("turned", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.int32, [N, M])
    p = f.computation("p", {i: N, j: M}, a[i, j] + 1)
    q = f.computation("q", {i: N, j: M}, p[i, M - 1 - j])
    f.outputs(q)
    q.fuse(p, j, shift=True)
    assert [str(command) for command in f.commands] == ["q.fuse(p, j)", "q.shift(i, 1)"]
    given = np.arange(12, dtype=np.int32).reshape(3, 4)
    np.testing.assert_array_equal(f.compile()(given), given[:, ::-1] + 1)


def test_elements_are_overwritten_after_their_last_read() -> None:
    """q is kept in the array that p reads to the left: q[i] waits until p[i + 1] has read there."""
    f = tm.Function("inplace", params=[N], assume="N >= 2")
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, tm.select(i == 0, a[i], a[i - 1] * 10))
    q = f.computation("q", {i: N}, p[i] + 1)
    f.outputs(q)
    q.store_in(a)
    q.fuse(p, i, shift=True)
    assert [str(c) for c in f.commands[1:]] == ["q.fuse(p, i)", "q.shift(i, 1)"]
    given = np.arange(7, dtype=np.int32)
    f.compile()(given)
    np.testing.assert_array_equal(given, [1, 1, 11, 21, 31, 41, 51])


def test_terms_are_added_after_their_start() -> None:
    f = tm.Function("sums", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N, N])
    c = f.reduction("c", {i: N}, over={k: N}, op=tm.sum, expr=a[i, k])
    out = f.computation("out", {i: N - 1}, c[i] + c[i + 1])
    f.outputs(out)
    c.update.fuse(c.init, i, shift=True)
    out.fuse(c.update, i, shift=True)
    assert [str(x) for x in f.commands] == ["c.update.fuse(c.init, i)", "out.fuse(c.update, i)", "out.shift(i, 1)"]
    given = np.arange(25, dtype=np.int32).reshape(5, 5)
    sums = given.sum(axis=1, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(given), sums[:-1] + sums[1:])


def test_commands_are_saved_as_they_are_in_the_log(tmp_path: Path) -> None:
    f, p, q = stencil([(1, 1)])
    q.fuse(p, j, shift=True)
    f.save(tmp_path / "stencil.json")
    loaded = tm.load(tmp_path / "stencil.json")
    assert loaded.commands == f.commands and loaded.source() == f.source()
    again, p, q = stencil([(1, 1)])
    for command in f.commands:  # pasted
        exec(str(command), {"p": p, "q": q, "i": i, "j": j})
    assert again.commands == f.commands


def refused(f: tm.Function, q: tm.Computation, p: tm.Computation, words: str) -> None:
    before = f.program
    with pytest.raises(CommandError, match=words):
        q.fuse(p, i, shift=True)
    assert f.program is before


def test_a_distance_without_a_bound_is_refused() -> None:
    f = tm.Function("turned", params=[N])
    a = f.input("a", tm.int32, [N])
    p = f.computation("p", {i: N}, a[i] + 1)
    q = f.computation("q", {i: N}, p[N - 1 - i])
    f.outputs(q)
    refused(
        f, q, p, r"q\.fuse\(p, i, shift=True\): no constant shift in i lets p come before q .* has no bound; let them"
    )
    refused(f, q, p, r"\(iteration 1 of p before 0 of q, N = 2\)")


def test_what_is_between_two_others_is_refused() -> None:
    f = tm.Function("between", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N + 4])
    p = f.computation("p", {i: N + 4}, a[i])
    q = f.computation("q", {i: N + 2}, p[i + 2])
    s = f.computation("s", {i: N}, q[i + 2] + p[i])
    f.outputs(s)
    s.fuse(p, i)
    refused(f, q, p, r"no shift of what joins .* p, q, s: .*fuse the computations in the order in which they read")
    f.undo()
    q.fuse(p, i, shift=True)
    s.fuse(q, i, shift=True)
    given = np.arange(9, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(given), given[4:] + given[:-4])


def test_buffers_of_one_iteration_are_not_shifted() -> None:
    f = tm.Function("local", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N + 1])
    p = f.computation("p", {i: N + 1}, a[i])
    r = f.computation("r", {i: N}, a[i] * 3)
    q = f.computation("q", {i: N}, p[i + 1] + r[i])
    f.outputs(q)
    r.compute_at(q, i)
    refused(f, q, p, "r has to be shifted by 1, but r is kept for one iteration of loop i: fuse before compute_at")
    f.undo()
    q.fuse(p, i, shift=True)
    r.compute_at(q, i)
    given = np.arange(9, dtype=np.int32)
    np.testing.assert_array_equal(f.compile()(given), given[1:] + 3 * given[:-1])


def test_shift_is_a_truth_value() -> None:
    _, p, q = stencil([(1, 1)])
    with pytest.raises(CommandError, match=r"shift=2\): give shift=True, or use shift\(loop, by\)"):
        q.fuse(p, i, shift=2)  # type: ignore[arg-type]
