"""Pages in a headless browser: what is drawn, where labels are, what goes wrong, and what they ask of the network.

Starting a browser takes longer than all pages together, so that they are frames of one page.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next((found for found in map(shutil.which, NAMES) if found is not None), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: apt-get install chromium")


@dataclass(frozen=True)
class Page:
    """A page, the state that is asked of it, ``step=3&point=0``, and a script that runs before it is measured."""

    text: str
    asked: str = ""
    before: str = ""


#: Sends what tests ask for to the page around.
MEASURE = """
<script>
const named = (css) => [...document.querySelectorAll(css)];
const texts = (css) => named(css).map((node) => node.textContent), count = (css) => named(css).length;
const boxes = named("svg text.label, h1, h2, h3, .soft, .code, .key, td, th, .message")
  .filter((node) => !node.querySelector(".soft, .code, select") && node.textContent.trim())
  .map((node) => {
    const {left, top, right, bottom} = node.getBoundingClientRect();
    return {node, text: node.textContent, box: [left, top, right, bottom]};
  })
  .filter(({box}) => box[2] > box[0] && box[3] > box[1]);
const along = (a, b, axis) => Math.min(a[axis + 2], b[axis + 2]) - Math.max(a[axis], b[axis]);
const meet = (a, b) => along(a, b, 0) > 1 && along(a, b, 1) > 1;
const overlaps = [];
boxes.forEach((a, k) => boxes.slice(k + 1).forEach((b) => {
  if (meet(a.box, b.box) && !a.node.contains(b.node) && !b.node.contains(a.node)) overlaps.push([a.text, b.text]);
}));
const clipped = named("svg.labels").flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1;
  }).map((node) => node.textContent);
});
const lines = named("svg text, h1, h2, h3, .soft, .code, .key, td, th, .message, label").flatMap((node) => {
  const words = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), found = [];
  while (words.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(words.currentNode);
    for (const box of range.getClientRects()) found.push([node.textContent, box.left, box.top, box.right, box.bottom]);
  }
  return found;
});
const within = (x, y, [, left, top, right, bottom]) => left + 1 < x && x < right - 1 && top + 1 < y && y < bottom - 1;
const crossed = new Set();
for (const path of named("path.arrow")) {
  const placed = path.getScreenCTM(), length = path.getTotalLength();
  for (let at = 0; at <= length; at += 2) {
    const {x, y} = path.getPointAtLength(at).matrixTransform(placed);
    for (const line of lines) if (within(x, y, line)) crossed.add(`${line[0]} by ${path.dataset.pair || "a message"}`);
  }
}
const swatches = named(".legend .key").map((node) => {
  const {backgroundColor, backgroundImage, borderColor, borderRadius} = getComputedStyle(node.firstChild);
  return [node.textContent, [backgroundColor, backgroundImage, borderColor, borderRadius].join(" ")];
});
parent.postMessage({name: window.name, found: {
  ready: document.body.dataset.ready, error: document.body.dataset.error || null,
  overlaps, clipped, crossed: [...crossed], swatches, labels: boxes.length,
  smallest: Math.min(...named("svg text.label").map((node) => parseFloat(getComputedStyle(node).fontSize))),
  requests: performance.getEntriesByType("resource").length, back: getComputedStyle(document.body).backgroundColor,
  instances: count("rect.instance"), elements: count("rect.element"), bad: count("rect.instance.bad"),
  now: count("rect.instance.now"), later: count("rect.instance.later"), differs: count("rect.differs"),
  arrows: count("path.arrow:not(.sent):not(.violation)"), sent: count("path.sent"),
  violations: named("path.arrow.violation").map((node) => node.dataset.pair),
  titles: texts("h1, h2, h3"), verdicts: texts(".verdict"), messages: texts(".violation .message"),
  commands: texts(".violation code"), rows: texts("tr.message"), axes: texts("text.axis"), hover: texts("#hover > div"),
  lanes: texts("text.lane"), differences: texts(".differences > *"), choices: texts(".choices label"),
  step: texts("#step"),
}}, "*");
</script>
"""

AROUND = """<!DOCTYPE html><meta name="color-scheme" content="light dark">
<script>
const found = {};
addEventListener("message", (event) => {
  found[event.data.name] = event.data.found;
  document.getElementById("measured").textContent = JSON.stringify(found);
});
</script>
<pre id="measured">{}</pre>
"""


def measured(pages: Mapping[str, Page], folder: Path, *, dark: bool = False) -> dict[str, dict[str, Any]]:
    """What each of several pages shows."""
    frames = []
    for number, (name, page) in enumerate(pages.items()):
        path = folder / f"{number}.html"
        path.write_text(page.text.replace("</body>", page.before + MEASURE + "</body>"), encoding="utf-8")
        source = f"{path.name}#{html.escape(page.asked)}"
        frames.append(f'<iframe name="{html.escape(name)}" src="{source}" width="1400" height="1000"></iframe>')
    around = folder / "around.html"
    around.write_text(AROUND + "\n".join(frames), encoding="utf-8")
    said = _run(around, "", dark, ["--dump-dom", "--virtual-time-budget=20000"])
    found = re.search(r'<pre id="measured">(.*?)</pre>', said, re.DOTALL)
    assert found is not None
    result: dict[str, dict[str, Any]] = json.loads(html.unescape(found[1]))
    assert set(result) == set(pages), "the script of a page did not come to its end"
    return result


def screenshot(page: Path, picture: Path, asked: str = "", *, dark: bool = False, size: tuple[int, int]) -> None:
    """A picture of a page, as PNG."""
    options = [f"--screenshot={picture}", f"--window-size={size[0]},{size[1]}", "--hide-scrollbars"]
    _run(page, asked, dark, [*options, "--virtual-time-budget=3000"])


def opened(url: str, folder: Path) -> None:
    """Open a page of a server on this machine, until all that it loads has been loaded."""
    _opened(url, folder, False, ["--dump-dom"])


def _run(path: Path, asked: str, dark: bool, options: list[str]) -> str:
    return _opened(f"{path.as_uri()}#{asked}", path.parent, dark, options)


def _opened(url: str, folder: Path, dark: bool, options: list[str]) -> str:
    assert BROWSER is not None
    command = [
        BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
        "--disable-background-networking", f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}", *options, url,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True).stdout
