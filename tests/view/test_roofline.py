"""The roofline plot: where its points are, by the definition of the roof, and what its legend says."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import tiramisu_py as tm
from tests.programs import pictured
from tiramisu_py.view.roofline import Mark, Roof, roofline

MACHINE = tm.Machine(core_flops=4e9, cores=2, host_bandwidth=16e9)  # the ridge is at half an operation a byte
MEMORY = Roof("memory", 16e9, 8e9)
DOCS = Path(__file__).resolve().parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def points(svg: str) -> list[tuple[float, float]]:
    """The places of the marks, in the order in which they were given."""
    circles = ET.fromstring(svg).findall(f"{SVG}circle")
    return [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in circles if "stroke" in c.attrib]


def corners(svg: str) -> list[tuple[float, float]]:
    """The corners of the roof."""
    path = next(p for p in ET.fromstring(svg).findall(f"{SVG}path") if p.attrib["class"] == "roof")
    numbers = [float(number) for number in re.findall(r"[-.0-9]+", path.attrib["d"])]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def test_points_are_on_the_roof_and_measured_ones_below_it() -> None:
    svg = roofline(
        "f", [Mark("low", 0.125, MEMORY), Mark("high", 8.0, MEMORY), Mark("measured", 8.0, MEMORY, 4e9)], [MEMORY]
    )
    low, high, measured = points(svg)
    start, ridge, end = corners(svg)
    slope = (ridge[1] - start[1]) / (ridge[0] - start[0])
    assert low[1] == pytest.approx(start[1] + slope * (low[0] - start[0]), abs=0.2)
    assert high[1] == pytest.approx(ridge[1], abs=0.2) == pytest.approx(end[1], abs=0.2)
    assert measured[0] == high[0]
    assert measured[1] > high[1]  # pixels grow downwards


def test_the_legend_says_rates_and_shares() -> None:
    svg = roofline("f < g", [Mark("each byte once", 0.25, MEMORY), Mark("measured", 0.25, MEMORY, 1e9)], [MEMORY])
    said = [text.text or "" for text in ET.fromstring(svg).findall(f"{SVG}text")]
    assert said[0] == "f < g"
    assert "8 Gop/s in multiply-adds; 16 GB/s; both from 0.5 operations a byte on" in said
    assert "each byte once: 0.25 a byte, 4 Gop/s at most" in said
    assert "measured: 0.25 a byte, 1 Gop/s, 25% of the roof" in said


@pytest.mark.parametrize("intensity", [2.0**-12, 2.0**14])
def test_points_far_away_are_inside_of_the_plot(intensity: float) -> None:
    ((x, y),) = points(roofline("f", [Mark("far", intensity, MEMORY)], [MEMORY]))
    assert 90 < x < 600
    assert 50 <= y <= 340


def test_no_label_is_on_another_or_in_the_plot() -> None:
    near = Roof("L1", 64e9, 8e9)
    marks = [Mark("a", 0.1, MEMORY), Mark("b", 1.0, near), Mark("c", 1.0, MEMORY, 1e8)]
    svg = roofline("f", marks, [MEMORY, near])
    places = [(float(t.attrib["x"]), float(t.attrib["y"])) for t in ET.fromstring(svg).findall(f"{SVG}text")]
    assert len(set(places)) == len(places)
    assert not [place for place in places if 90 < place[0] < 600 and 50 < place[1] < 340]


def test_a_schedule_has_a_roofline() -> None:
    N = tm.params("N")[0]
    i, i0, i1 = tm.iters("i i0 i1")
    f = tm.Function("axpy", params=[N])
    x, y = (f.input(name, tm.float64, [N]) for name in "xy")
    z = f.computation("z", {i: N}, 2.0 * x[i] + y[i])
    f.outputs(z)
    z.split(i, 64, i0, i1)
    svg = f.cost(N=1024).roofline(MACHINE, seconds=1e-6)
    assert "axpy at N = 1024" in svg
    assert f"{2 / 24:.3g} a byte" in svg
    assert "measured" in svg
    for seconds in (0, -1.0, float("nan"), "1 ms", True):
        with pytest.raises(tm.ArgumentError, match=r"seconds=.*: give the time of a call in seconds"):
            f.cost(N=1024).roofline(MACHINE, seconds)  # type: ignore[arg-type]
    for machine in ("H100", tm.Machine, 3, None):
        with pytest.raises(tm.ArgumentError, match=r"machine=.* has no rates: give tm.Machine.here\(\)"):
            f.cost(N=1024).roofline(machine)  # type: ignore[arg-type]


def said(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).findall(f"{SVG}text")]


def axpy(dtype: tm.ScalarType = tm.float32) -> tm.Function:
    N = tm.params("N")[0]
    (i,) = tm.iters("i")
    f = tm.Function("axpy", params=[N])
    x, y = (f.input(name, dtype, [N]) for name in "xy")
    f.outputs(f.computation("z", {i: N}, 2.0 * x[i] + y[i]))
    return f


def test_each_level_that_is_measured_has_a_roof_and_a_mark() -> None:
    levels = (tm.MemoryLevel("L1", 2**15, read=64e9, copy=32e9), tm.MemoryLevel("L2", 2**20))
    machine = tm.Machine(4e9, 2, 16e9, levels=levels)
    words = said(axpy().cost(N=10**6).roofline(machine))
    assert "memory: 8 Gop/s, 16 GB/s; both from 0.5 operations a byte" in words
    assert "L1: 8 Gop/s, 64 GB/s; both from 0.125 operations a byte" in words
    assert not [each for each in words if each.startswith("L2")]
    assert f"each byte that comes from L1: {2 / 12:.3g} a byte, 8 Gop/s at most" in words
    assert f"each byte that comes from memory: {2 / 12:.3g} a byte, 2.67 Gop/s at most" in words


def test_float64_has_the_machines_rate_of_it() -> None:
    machine = tm.Machine(4e9, 2, 16e9, core_flops64=2e9)
    assert any("4 Gop/s in multiply-adds" in each for each in said(axpy(tm.float64).cost(N=100).roofline(machine)))
    assert any("8 Gop/s in multiply-adds" in each for each in said(axpy().cost(N=100).roofline(machine)))


def test_what_runs_on_a_gpu_is_below_its_roof() -> None:
    N = tm.params("N")[0]
    i, i0, i1 = tm.iters("i i0 i1")
    f = tm.Function("twice", params=[N])
    x = f.input("x", tm.float32, [N])
    y = f.computation("y", {i: N}, 2.0 * x[i])
    f.outputs(y)
    y.split(i, 32, i0, i1)
    y.tag_gpu([i0], [i1])
    f.derive_transfers()
    machine = tm.Machine(4e9, 2, 16e9, gpu_flops=8e12, gpu_bandwidth=1e12, link_bandwidth=1e10)
    words = said(f.cost(N=1000).roofline(machine))
    assert "GPU: 8 Top/s, 1 TB/s; both from 8 operations a byte" in words
    assert "each byte of the GPU's arrays once: 0.125 a byte, 125 Gop/s at most" in words
    assert not [each for each in said(axpy().cost(N=1000).roofline(machine)) if "GPU" in each]


def test_the_guides_plot_is_of_the_limits_that_were_measured() -> None:
    """Its figures are those of the page of results, but for three digits; its picture is the one that it makes."""
    text = (DOCS / "guide" / "13-seeing.md").read_text()
    written = re.search(r"^machine = (tm\.Machine\(.*?\)\)\))$", text, re.DOTALL | re.MULTILINE)
    seconds = re.search(r"seconds=([-.e0-9]+)\)", text)
    assert written is not None and seconds is not None
    shown, kept = eval(written[1], {"tm": tm}), tm.Machine.load(DOCS / "results" / "machine.json")
    assert dataclasses.asdict(shown) == dataclasses.asdict(kept)
    svg = pictured.tiled().cost(N=1000, M=2000).roofline(shown, float(seconds[1]))
    assert (DOCS / "guide" / "pictures" / "roofline.svg").read_text() == svg
