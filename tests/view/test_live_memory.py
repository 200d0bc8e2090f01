"""`f.cost("memory")`: the bytes of each moment beside arrays counted stage by stage, the peak beside the kernel's."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from typing import Any

import pytest

import tiramisu_py as tm

N, M, T = tm.params("N M T")
i, j, t = tm.iters("i j t")


def stages(seed: int, count: int = 8) -> tuple[tm.Function, list[set[int]]]:
    """Stages that read one or two earlier ones, and the temporaries that live while each is computed."""
    rng = random.Random(seed)
    f = tm.Function("stages", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N, M])
    values: list[Any] = [f.computation("s0", {i: N, j: M}, a[i, j] + 1)]
    last = {0: 0}
    for k in range(1, count):
        read = {k - 1, rng.randrange(max(0, k - 4), k)}
        values.append(f.computation(f"s{k}", {i: N, j: M}, sum(values[n][i, j] for n in sorted(read)) * 0.5 + k))
        last |= dict.fromkeys(read, k)
    f.outputs(values[-1])
    return f, [{n for n in last if n <= k <= last[n] and n < count - 1} for k in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_each_stage_has_the_bytes_of_the_arrays_that_live(seed: int) -> None:
    f, live = stages(seed)
    found = f.cost("memory", N=7, M=5)
    by_stage = {moment.first.split("[")[0]: moment.bytes("memory") for moment in found.moments if moment.first}
    assert found.peak == 4 * 35 * max(map(len, live))
    for k, arrays in enumerate(live):
        if f"s{k}" in by_stage:  # where what is held does not change, one moment has several stages
            assert by_stage[f"s{k}"] >= 4 * 35 * len(arrays)
    assert found.at.bytes("memory") == found.peak == sum(each.bytes for each in found.largest)


def rod(by: int | None) -> tm.Function:
    """A recurrence over time, of which `by` levels are kept."""
    f = tm.Function("rod", params=[T, N], assume="T >= 1 and N >= 3")
    first = f.input("first", tm.float64, [N])
    inside = (i >= 1) & (i < N - 1)
    u = f.computation(
        "u",
        {t: T + 1, i: N},
        lambda u: tm.select(t == 0, first[i], tm.select(inside, u[t - 1, i - 1] + u[t - 1, i + 1], u[t - 1, i])),
    )
    f.outputs(f.computation("last", {i: N}, u[T, i]))
    if by is not None:
        u.fold(t, by)
    return f


@pytest.mark.parametrize(("by", "levels"), [(None, 21), (2, 2), (5, 5)])
def test_a_fold_leaves_its_levels(by: int | None, levels: int) -> None:
    found = rod(by).cost("memory", T=20, N=100)
    assert found.peak == levels * 800
    assert found.peaks == rod(by).compile().temporary_bytes(T=20, N=100)
    assert [each.arrays for each in found.largest] == [("u",)]


def test_arrays_of_threads_count_for_each_thread() -> None:
    f = tm.Function("rows", params=[N], assume="N >= 1")
    a = f.input("a", tm.float64, [N, 3000])
    row = f.computation("row", {i: N, j: 3000}, a[i, j] * 2)
    out = f.computation("out", {i: N, j: 3000}, row[i, j] + row[i, 2999 - j])
    f.outputs(out)
    row.compute_at(out, i)
    out.parallelize(i)
    assert f.cost("memory", N=50).peak == 3000 * 8
    assert f.cost("memory", N=50, threads=3).peak == 3 * 3000 * 8
    assert f.cost("memory", N=50, threads=3).peaks == f.compile(threads=3).temporary_bytes(N=50)
    with pytest.raises(tm.ArgumentError, match="threads=0: give the number of threads, 1 at least"):
        f.cost("memory", N=50, threads=0)


def test_the_text_says_what_makes_the_peak_and_when() -> None:
    f, _ = stages(1, 4)
    text = str(f.cost("memory", N=2, M=3))
    assert text.splitlines()[0] == "stages at N=2, M=3"
    assert "memory: at most 72 bytes, while s" in text and "in turns" not in str(rod(2).cost("memory", T=3, N=4))
    plain = tm.Function("plain", params=[N])
    a = plain.input("a", tm.float64, [N])
    plain.outputs(plain.computation("b", {i: N}, a[i] + 1))
    assert str(plain.cost("memory", N=3)).endswith("no temporaries") and plain.cost("memory", N=3).peak == 0


def test_the_picture_has_a_bar_for_each_array_and_moment() -> None:
    found = stages(2)[0].cost("memory", N=7, M=5)
    drawn = ET.fromstring(found.picture())
    bars = [each for each in drawn.iter("{http://www.w3.org/2000/svg}rect") if len(each)]
    assert len(bars) == sum(len(moment.held) for moment in found.moments if moment.first)
    assert max(float(bar.attrib["height"]) for bar in bars) <= 220


def test_what_cannot_be_said_is_refused() -> None:
    f, _ = stages(3, 3)
    with pytest.raises(tm.ArgumentError, match="M"):
        f.cost("memory", N=7)
    f["s1"].fold(i, 1)
    with pytest.raises(tm.LegalityError):
        f.cost("memory", N=7, M=5)
