"""The picture of a trace: what is where on it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from tiramisu_py.toolchain.traces.timeline import COLOURS
from tiramisu_py.toolchain.traces.trace import KINDS, Trace, TraceEvent

SVG = "{http://www.w3.org/2000/svg}"
PIPELINE = Trace(
    "blur",
    (
        TraceEvent("by_1", "nest", 0.000, 0.008),
        TraceEvent("image", "upload", 0.001, 0.003, device=0, stream=1, bytes=400),
        TraceEvent("by_0", "kernel", 0.003, 0.006, device=0, stream=0),
        TraceEvent("by_out", "download", 0.006, 0.007, device=0, stream=2, bytes=300),
        TraceEvent("by_wait", "wait", 0.008, 0.010, device=0),
    ),
)


def drawn(trace: Trace, width: int = 960) -> ElementTree.Element:
    return ElementTree.fromstring(trace.picture(width))


def bars(picture: ElementTree.Element) -> list[tuple[str, float, float, float]]:
    """The kind, the left side, the width and the top of each bar."""
    found = [group.find(f"{SVG}rect") for group in picture.iter(f"{SVG}g")]
    return [(b.get("class"), *(float(b.get(key)) for key in ("x", "width", "y"))) for b in found if b is not None]


def words(picture: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]


def test_bars_lie_where_time_says_and_in_a_row_for_each_place():
    found = {kind: place for kind, *place in bars(drawn(PIPELINE))}
    assert len(found) == 5
    begins = np.array([found[e.kind][0] for e in PIPELINE.events])
    widths = np.array([found[e.kind][1] for e in PIPELINE.events])
    scale, left = np.polyfit([e.begin for e in PIPELINE.events], begins, 1)
    np.testing.assert_allclose(begins, left + scale * np.array([e.begin for e in PIPELINE.events]), atol=0.1)
    np.testing.assert_allclose(widths, scale * np.array([e.seconds for e in PIPELINE.events]), atol=0.2)
    tops = [found[kind][2] for kind in ("nest", "kernel", "upload", "download")]
    assert tops == sorted(set(tops)) and found["wait"][2] == found["nest"][2]
    assert left + scale * 0.010 <= 960


def test_rows_bars_and_the_axis_have_words():
    said = words(drawn(PIPELINE))
    assert said[0] == "blur: 10 ms"
    rows = ["host", "GPU 0, stream 0", "GPU 0, stream 1", "GPU 0, stream 2"]
    assert [word for word in said if word in rows] == rows
    assert {"by_1", "image", "by_0", "by_out", "by_wait", "nest", "kernel", "upload", "download", "wait"} <= set(said)
    ticks = [word for word in said if re.fullmatch(r"\d+( ms)?", word)]
    assert ticks[0] == "0" and ticks[-1] == "10 ms"
    numbers = [int(tick.split()[0]) for tick in ticks]
    assert numbers == sorted(set(numbers)) and 4 <= len(ticks) <= 12
    told = [title.text for title in drawn(PIPELINE).iter(f"{SVG}title")]
    assert "image: upload, 2 ms from 1 ms on, 400 bytes" in told


def test_words_stay_inside_of_their_bars():
    trace = Trace("f", tuple(TraceEvent("a_long_name_of_a_nest", "nest", n * n, n * n + n) for n in range(1, 12)))
    shortened = 0
    for group in drawn(trace).iter(f"{SVG}g"):
        bar, word = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        if word is not None:
            assert 5.5 * len(word.text) <= float(bar.get("width"))
            assert word.text == "a_long_name_of_a_nest" or word.text.endswith("…")
            shortened += word.text.endswith("…")
    assert shortened


def test_ranks_are_named_where_there_are_several():
    trace = Trace("f", (TraceEvent("a", "nest", 0, 1), TraceEvent("b", "send", 1, 2, rank=1, peer=0, bytes=4)))
    picture = drawn(trace)
    assert [word for word in words(picture) if word.startswith("rank")] == ["rank 0, host", "rank 1, host"]
    assert "b: send, 1 s from 1 s on, 4 bytes, to rank 0" in [title.text for title in picture.iter(f"{SVG}title")]


def test_the_picture_is_on_white_and_dark_words_are_on_light_bars():
    picture = drawn(PIPELINE, 500)
    first = picture.find(f"{SVG}rect")
    assert (first.get("fill"), first.get("width"), first.get("height")) == ("#ffffff", "500", picture.get("height"))
    assert set(COLOURS) == set(KINDS)
    for colour in COLOURS.values():
        red, green, blue = (int(colour[n : n + 2], 16) for n in (1, 3, 5))
        assert 0.299 * red + 0.587 * green + 0.114 * blue > 160


def test_names_may_have_any_letters():
    picture = drawn(Trace('a & "b"', (TraceEvent('<x> & "y"', "nest", 0, 1),)))
    assert words(picture)[0] == 'a & "b": 1 s' and '<x> & "y"' in words(picture)


def test_very_many_events_are_drawn_as_far_as_they_can_be_seen():
    events = tuple(TraceEvent("s", "nest", n * 1e-6, n * 1e-6 + 5e-7) for n in range(50_000))
    assert 500 < len(bars(drawn(Trace("f", events)))) < 3000


@pytest.mark.parametrize("seconds", [3e-9, 4e-6, 0.5e-3, 0.02, 7.0, 4000.0])
def test_the_axis_fits_any_time(seconds):
    said = words(drawn(Trace("f", (TraceEvent("by", "nest", 0, seconds),))))
    unit = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}
    (last,) = [word.split() for word in said[1:] if word.split()[-1] in unit]
    assert 0 <= float(last[0]) * unit[last[1]] <= seconds * 1.000001


def test_a_trace_of_nothing_is_a_picture_too():
    assert bars(drawn(Trace("f", ()))) == [] and words(drawn(Trace("f", ())))[0].startswith("f: 0")
