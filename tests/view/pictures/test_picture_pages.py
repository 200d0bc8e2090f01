"""Pictures in a headless browser: what is drawn, no label on another, no error, no request."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm
from tests.programs import pictured
from tests.view.pictures.browser import Page, measured, needs_browser
from tiramisu_py.view import Picture, Scene

#: What is looked at: programs, and the sizes of their pictures (none: those that are chosen).
PROGRAMS: dict[str, tuple[Callable[[], tm.Function], dict[str, int]]] = {
    "tiled": (pictured.tiled, {}),
    "refused": (pictured.refused, {}),
    "refused larger": (pictured.refused, {"N": 3, "M": 2}),
    "distributed": (pictured.distributed, {"C": 8}),
    "cooperative": (pictured.cooperative, {"R": 8, "C": 8, "G": 4}),
    "product": (pictured.product, {"N": 4}),
    "skewed": (pictured.skewed, {"T": 7, "N": 12}),
    "shared": (pictured.shared_sums, {"N": 10}),
    "long": (pictured.plain, {"N": 100, "M": 2}),
    "plain": (pictured.plain, {"N": 3, "M": 2}),
}
TURNED = """<script>
for (const [k, value] of [[0, "0"], [2, "1"]]) {
  const choice = document.querySelectorAll(".choices select")[k];
  choice.value = value;
  choice.dispatchEvent(new Event("change"));
}
</script>"""
LARGE = "<script>document.querySelectorAll('text.tick').forEach((node) => { node.style.fontSize = '60px'; })</script>"
THROWN = "<script>setTimeout(() => 0); throw new Error('mine')</script>"


@cache
def picture(name: str) -> Picture:
    build, sizes = PROGRAMS[name]
    return build().show(**sizes)


@cache
def both() -> Picture:
    return pictured.tiled().show(beside=pictured.fused(), N=5, M=5)


def number_of(drawn: Scene, *name: object) -> int:
    """The number of the instance of a statement at a point."""
    return next(x.order for x in drawn.instances if (drawn.statements[x.statement].name, x.point) == name)


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """All pages in a browser that asks for light colours."""
    plain = picture("plain").html
    pages = {name: Page(picture(name).html) for name in PROGRAMS} | {
        "at step 11": Page(plain, "step=11"),
        "pointed at": Page(plain, f"point={number_of(picture('plain').scenes[0], 'by', (0, 0))}"),
        "all arrows": Page(plain, "arrows=all"),
        "messages": Page(picture("distributed").html, "step=46"),
        "all messages": Page(picture("distributed").html, "arrows=all"),
        "all of blocks": Page(picture("shared").html, "arrows=all"),
        "turned": Page(picture("product").html, before=TURNED),
        "both": Page(both().html),
        "both pointed at": Page(both().html, f"point={number_of(both().scenes[0], 'bx', (0, 4))}"),
        "a term": Page(
            picture("product").html, f"point={number_of(picture('product').scenes[0], 'c.update', (1, 2, 3))}"
        ),
        "a wrong read": Page(picture("refused larger").html, "point=3"),
        "large labels": Page(plain, "arrows=all", before=LARGE),
        "an error": Page(plain, before=THROWN),
    }
    return measured(pages, tmp_path_factory.mktemp("light"))


def is_right(found: dict[str, Any]) -> None:
    """What holds for every page."""
    assert (found["ready"], found["error"], found["requests"]) == ("yes", None, 0)
    assert found["overlaps"] == []
    assert found["clipped"] == []
    assert found["crossed"] == []
    assert found["labels"] > 10
    assert found["smallest"] >= 11


def is_light(found: dict[str, Any]) -> bool:
    """Whether the background is."""
    return all(int(number) > 128 for number in re.findall(r"\d+", found["back"])[:3])


@needs_browser
def test_every_page_shows_all_its_instances_and_no_label_on_another(light: dict[str, dict[str, Any]]) -> None:
    for name in PROGRAMS:
        drawn, found = picture(name).scenes[0], light[name]
        is_right(found)
        assert is_light(found)
        whole = [k for k, statement in enumerate(drawn.statements) if len(statement.dims) < 3 and statement.source]
        assert found["instances"] >= sum(x.statement in whole for x in drawn.instances) > 0
        assert found["later"] == 0
        assert found["verdicts"] == [drawn.verdict]
        arrays = {f"array {array.name} ({array.memory})" for array in drawn.arrays}
        assert arrays <= set(found["titles"])
    is_right(light["both"])


@needs_browser
def test_a_browser_that_asks_for_dark_colours_gets_them(tmp_path: Path) -> None:
    names = ("tiled", "refused")
    found = measured({name: Page(picture(name).html) for name in names}, tmp_path, dark=True)
    for name in names:
        is_right(found[name])
        assert not is_light(found[name])


@needs_browser
def test_the_counterexample_is_red_in_the_words_of_the_report(light: dict[str, dict[str, Any]]) -> None:
    (violation,) = pictured.refused().check().violations
    (drawn,) = picture("refused").scenes[0].violations
    found = light["refused"]
    assert found["messages"] == [violation.message]
    assert found["commands"] == [violation.command, violation.repair]
    assert found["violations"] == [f"{drawn.writer}>{drawn.reader}"]
    assert found["bad"] == 2
    wrong = {read.reader for read in picture("refused larger").scenes[0].reads if read.wrong}
    assert light["refused larger"]["bad"] == len(wrong) + 1
    assert len(light["refused larger"]["violations"]) == 1


@needs_browser
def test_time_hovering_and_dependences(light: dict[str, dict[str, Any]]) -> None:
    found = light["at step 11"]
    is_right(found)
    assert found["step"] == ["step 11 of 16"]
    assert (found["instances"], found["now"], found["later"]) == (16, 1, 5)
    assert found["arrows"] == 3
    hover, values = light["pointed at"]["hover"], picture("plain").scenes[0].values
    assert hover[0] == f"by[0, 0] = {values['by'][0, 0]}"
    assert f"reads bx[2, 0] = {values['bx'][2, 0]} from bx[2, 0]: stored at step 5" in hover
    assert "stores to by[0, 0]" in hover
    assert "run by the host thread" in hover
    assert light["all arrows"]["arrows"] == sum(read.writer >= 0 for read in picture("plain").scenes[0].reads) == 18


@needs_browser
def test_hovering_shows_values_and_those_that_a_refused_schedule_ought_to_have(
    light: dict[str, dict[str, Any]],
) -> None:
    drawn = picture("product").scenes[0]
    (update,) = [x for x in drawn.instances if x.point == (1, 2, 3)]
    title, _, term, *_ = light["a term"]["hover"]
    assert title == "c[1, 2] (c.update)"
    assert term == f"its term is {update.term}; in the end c[1, 2] = {drawn.values['c'][1, 2]}"
    drawn = picture("refused larger").scenes[0]
    named = drawn.statements[drawn.instances[3].statement].source, drawn.instances[3].value
    hover = light["a wrong read"]["hover"]
    assert hover[0].endswith(f" ({drawn.values[named[0]][named[1]]} by the algorithm)")


@needs_browser
def test_messages_between_ranks_and_devices_are_arrows_between_their_rows(light: dict[str, dict[str, Any]]) -> None:
    found = light["distributed"]
    assert found["lanes"] == ["rank 0", "rank 1", "rank 2"]
    assert (found["sent"], len(found["rows"])) == (4, 4)
    assert "bx_to_nextrank 0rank 11832" in found["rows"]  # one message of 8 elements, 32 bytes
    found = light["cooperative"]
    assert found["lanes"][0] == "the host thread"
    assert any(lane.startswith("GPU 0, block") for lane in found["lanes"])
    assert found["sent"] == len(found["rows"]) == 3


@needs_browser
def test_pointing_shows_the_pairs_that_the_other_schedule_runs_in_another_order(
    light: dict[str, dict[str, Any]],
) -> None:
    found, difference = light["both"], both().differences
    assert found["titles"][0] == "blur (left)proven"
    assert "blur (right)proven" in found["titles"]
    assert difference is not None
    words = f"{difference.different} of {difference.pairs} pairs of instances run in another order"
    assert found["differences"][0] == words
    named = [[(d.statements[x.statement].name, x.point) for x in d.instances] for d in both().scenes]
    steps = [
        dict(zip(n, (x.step for x in d.instances), strict=True)) for n, d in zip(named, both().scenes, strict=True)
    ]
    once = [at for at in named[0] if named[0].count(at) == 1 and named[1].count(at) == 1]
    this = ("bx", (0, 4))
    sign = [{at: (of[at] > of[this]) - (of[at] < of[this]) for at in once} for of in steps]
    assert light["both pointed at"]["differs"] == 2 * sum(sign[0][at] != sign[1][at] for at in once) > 0


@needs_browser
def test_deeper_spaces_are_shown_in_slices(light: dict[str, dict[str, Any]]) -> None:
    found = light["product"]
    assert found["instances"] == 16 + 16
    assert [choice.split(":")[0] for choice in found["choices"]] == ["to the right", "downwards", "i"]
    assert found["axes"][2:4] == ["k →", "j↓"]
    assert light["turned"]["axes"][2:4] == ["i →", "j↓"]
    assert light["turned"]["instances"] == 16 + 16


@needs_browser
def test_arrows_go_around_labels_also_where_there_are_many(light: dict[str, dict[str, Any]]) -> None:
    for name in ("all arrows", "messages", "all messages", "all of blocks", "both", "both pointed at"):
        assert light[name]["arrows"] > 0
        is_right(light[name])


def lightness_and_hue(colour: str) -> tuple[float, float, float]:
    """A colour ``rgb(1, 2, 3)`` in CIELAB, where distances are about those that are seen."""
    linear = [((c + 0.055) / 1.055) ** 2.4 for c in (int(n) / 255 for n in re.findall(r"\d+", colour)[:3])]
    rows = ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8727))
    x, y, z = (sum(a * b for a, b in zip(row, linear, strict=True)) ** (1 / 3) for row in rows)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@needs_browser
def test_each_entry_of_the_legend_looks_unlike_the_others(light: dict[str, dict[str, Any]]) -> None:
    for name in PROGRAMS:
        swatches = dict(light[name]["swatches"])
        assert len(set(swatches.values())) == len(swatches)
        assert "running now" in swatches
        filled = {text: look for text, look in swatches.items() if not look.startswith(("rgba(0, 0, 0, 0)", "none"))}
        statements = {statement.name for statement in picture(name).scenes[0].statements} & set(filled)
        for one in statements:
            for other in set(filled) - statements:
                distance = math.dist(*map(lightness_and_hue, (filled[one], filled[other])))
                assert distance > 20, (name, one, other)
        assert statements


@needs_browser
def test_the_measure_finds_labels_that_meet_arrows_on_labels_and_errors(light: dict[str, dict[str, Any]]) -> None:
    assert light["large labels"]["overlaps"]
    assert light["large labels"]["crossed"]
    assert "mine" in light["an error"]["error"]


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    shown = picture("plain")._repr_html_()
    inside = re.search(r'srcdoc="([^"]*)"', shown)
    assert inside is not None
    assert html.unescape(inside[1]) == picture("plain").html
    assert repr(picture("plain")) == "<picture of blur, proven: 16 instances in 16 steps at N = 3, M = 2>"


def test_a_picture_is_one_file_that_names_no_other(tmp_path: Path) -> None:
    path = tmp_path / "blur.html"
    drawn = pictured.plain().show("picture", path, N=3, M=2)
    text = path.read_text()
    assert text == drawn.html
    before, d3, after = re.split(r"(<script>// https://d3js\.org.*?</script>)", text, flags=re.DOTALL)
    assert len(d3) > 200_000
    assert "default-src 'none'" in before
    assert not re.search(r"(src|href)=|url\((?!#)|@import|https?://", before + after)
    assert len(text) < 400_000
