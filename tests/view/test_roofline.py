"""The roofline plot: where its points are, by the definition of the roof, and what its legend says."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

import tiramisu_py as tm
from tiramisu_py.view.roofline import Mark, roofline

MACHINE = tm.Machine(core_flops=4e9, cores=2, host_bandwidth=16e9)  # the ridge is at half an operation a byte
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
    svg = roofline("f", [Mark("low", 0.125), Mark("high", 8.0), Mark("measured", 8.0, 4e9)], MACHINE)
    low, high, measured = points(svg)
    start, ridge, end = corners(svg)
    slope = (ridge[1] - start[1]) / (ridge[0] - start[0])
    assert low[1] == pytest.approx(start[1] + slope * (low[0] - start[0]), abs=0.2)
    assert high[1] == pytest.approx(ridge[1], abs=0.2) == pytest.approx(end[1], abs=0.2)
    assert measured[0] == high[0]
    assert measured[1] > high[1]  # pixels grow downwards


def test_the_legend_says_rates_and_shares() -> None:
    svg = roofline("f < g", [Mark("each byte once", 0.25), Mark("measured", 0.25, 1e9)], MACHINE)
    said = [text.text or "" for text in ET.fromstring(svg).findall(f"{SVG}text")]
    assert said[0] == "f < g"
    assert "8 Gop/s in multiply-adds; 16 GB/s; both from 0.5 operations a byte on" in said
    assert "each byte once: 0.25 a byte, 4 Gop/s at most" in said
    assert "measured: 0.25 a byte, 1 Gop/s, 25% of the roof" in said


@pytest.mark.parametrize("intensity", [2.0**-12, 2.0**14])
def test_points_far_away_are_inside_of_the_plot(intensity: float) -> None:
    ((x, y),) = points(roofline("f", [Mark("far", intensity)], MACHINE))
    assert 90 < x < 600
    assert 50 <= y <= 340


def test_no_label_is_on_another_or_in_the_plot() -> None:
    svg = roofline("f", [Mark("a", 0.1), Mark("b", 1.0), Mark("c", 1.0, 1e8)], MACHINE)
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
