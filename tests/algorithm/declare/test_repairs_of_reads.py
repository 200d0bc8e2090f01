"""Reads of values that do not exist: the repair is written into the program as it says, and the program is proven."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tiramisu_py as tm

N, M = tm.params("N M")
i, j, k = tm.iters("i j k")
NAMES = {"tm": tm, "i": i, "j": j, "k": k, "N": N, "M": M}


def program(body: str, domain: str = "{i: N}", *, recurs: bool = False, given: str = ""):
    """A function whose value `z` is a text over an array `a` of one dimension and `w` of two."""
    f = tm.Function("f", params=[N, M], assume="N >= 4 and M >= 4")
    names = {**NAMES, "a": f.input("a", tm.float64, [N]), "w": f.input("w", tm.float64, [N, M])}
    f.outputs(f.computation("z", eval(domain, names), eval(f"lambda z: {body}" if recurs else body, names)))
    return f


def repair_of(f: tm.Function) -> str:
    return f.check().violations[0].repair


@pytest.mark.parametrize(
    ("body", "domain"),
    [
        ("z[i - 1] + a[i]", "{i: N}"),
        ("z[i - 1] * z[i - 2] + a[i]", "{i: N}"),
        ("z[i + 1] + a[i]", "{i: N}"),
        ("z[i - 3] + 1.0", "{i: (2, N)}"),
        ("z[i - 1, j] + z[i, j - 1] + w[i, j]", "{i: N, j: M}"),
        ("z[i - 1, j + 1] + w[i, j]", "{i: N, j: M}"),
    ],
)
def test_a_recurrence_gets_its_first_values(body: str, domain: str) -> None:
    repair = repair_of(program(body, domain, recurs=True))
    assert repair.startswith("give z its first values: tm.select(")
    written = repair.removeprefix("give z its first values: ").replace("..", "0.5")
    assert body in written
    f = program(written, domain, recurs=True)
    assert f.check().ok


def test_the_first_values_of_a_recurrence_are_where_it_cannot_read() -> None:
    f = program(repair_of(program("z[i - 2] + a[i]", recurs=True)).split(": ", 1)[1].replace("..", "7.0"), recurs=True)
    a = np.arange(1.0, 7)
    z = f.evaluate(a=a, w=np.zeros((6, 4)))
    wanted = [7.0, 7.0]
    for x in a[2:]:
        wanted.append(wanted[-2] + x)
    assert z.tolist() == wanted


@pytest.mark.parametrize(
    ("body", "domain", "index"), [("a[-1] + a[i]", "{i: N}", "a[N - 1]"), ("w[i, -2]", "{i: N}", "w[i, M - 2]")]
)
def test_a_negative_index_counts_from_the_end_when_it_is_written_so(body: str, domain: str, index: str) -> None:
    repair = repair_of(program(body, domain))
    assert repair.startswith(f"write {index}: ")
    f = program(re.sub(r"\w\[[^]]*-\d\]", index, body, count=1), domain)
    w = np.arange(20.0).reshape(5, 4)
    a = np.arange(5.0)
    assert f.evaluate(a=a, w=w).tolist() == eval(body, {"a": a, "w": w, "i": np.arange(5)}).tolist()


@pytest.mark.parametrize(
    ("body", "domain", "box"),
    [
        ("a[i - 1]", "{i: N}", "{i: (1, N)}"),
        ("a[i - 1] + a[i] + a[i + 1]", "{i: N}", "{i: (1, N - 1)}"),
        ("w[i, j + 2]", "{i: N, j: M}", "{i: N, j: M - 2}"),
        ("w[i - 1, j]", "{i: N, j: (i, M)}", ""),
    ],
)
def test_a_smaller_domain_and_a_boundary_are_right_as_they_are_written(body: str, domain: str, box: str) -> None:
    repair = repair_of(program(body, domain))
    smaller, boundary, *_ = repair.split(", or ")
    assert smaller == f"make the domain of z smaller{f', {box}' if box else ''}"
    if box:
        assert program(body, box).check().ok
    read = boundary.removeprefix("read ")
    one = re.fullmatch(r"tm\.boundary\.repeat_edge\((\w)\)(.*)", read)
    assert one
    near = re.sub(r"\b([aw])\[", r"tm.boundary.repeat_edge(\1)[", body)
    assert read in near
    assert program(near, domain).check().ok


def test_sizes_at_which_nothing_is_computed_are_no_repair() -> None:
    f = tm.Function("f", params=[N])
    a = f.input("a", tm.float64, [N])
    f.outputs(f.computation("z", {i: N}, a[i - 1]))
    assert "assume" not in repair_of(f)


@pytest.mark.parametrize(
    ("body", "ok"),
    [
        ("tm.select(i >= 1, a[i - 1], 0.0)", True),
        ("tm.select((i >= 1) & (N > 2), a[i - 1], 0.0)", True),
        ("tm.select(a[i] > 0, a[i - 1], 0.0)", False),
        ("tm.select((i >= 1) & (a[i] > 0), a[i - 1], 0.0)", True),
        ("tm.select((i >= 1) | (a[i] > 0), a[i - 1], 0.0)", False),
    ],
)
def test_a_choice_guards_what_it_reads_where_its_condition_is_affine(body: str, ok: bool) -> None:
    f = program(body)
    assert f.check().ok is ok
    if ok:
        a = np.arange(1.0, 7)
        assert f.evaluate(a=a, w=np.zeros((6, 4))).tolist() == [0, *a[:-1]]
