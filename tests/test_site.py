"""The site: it is built without a warning, and a search for a question's words finds the page that answers it."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any, ClassVar

import pytest

from tests.view.pictures.browser import needs_browser, opened

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors (with --quiet there would be none)."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'tiramisu_py[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr
    return folder


#: Asks the site's own search, and keeps the page loading until all answers have been sent.
ASKING = """<!DOCTYPE html><script>
const questions = @questions@, found = {}, worker = new Worker("/search/worker.js");
worker.onmessage = ({data}) => {
  if (data.results) found[questions[Object.keys(found).length]] = data.results.map((each) => each.location);
  const next = questions[Object.keys(found).length];
  if (!data.results && !data.allowSearch) return;
  if (next) worker.postMessage({query: next});
  else fetch("/found", {method: "POST", body: JSON.stringify(found)});
};
worker.postMessage({init: true});
</script><img src="/wait">"""
QUESTIONS = {
    "why was it refused and what would be accepted": "howto/why-refused/",
    "why was it refused": "howto/why-refused/",
    "schedule refused accepted": "howto/why-refused/",
    "what does the schedule do": "howto/what-a-schedule-does/",
    "what a schedule does": "howto/what-a-schedule-does/",
    "how do I call it from C": "howto/call-from-c/",
    "call from C": "howto/call-from-c/",
}


class Site(SimpleHTTPRequestHandler):
    """The site on this machine, the page that asks, and what it finds."""

    answered = Event()
    found: ClassVar[dict[str, list[str]]] = {}

    def do_GET(self) -> None:
        if self.path == "/ask":
            self._sent(ASKING.replace("@questions@", json.dumps(list(QUESTIONS))).encode(), "text/html")
        elif self.path == "/wait":
            self.answered.wait(120)
            self._sent(b"", "image/png")
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self.found.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._sent(b"", "text/plain")
        self.answered.set()

    def _sent(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def found(site: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the site's search finds for each question, best first, in a browser."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        opened(f"http://127.0.0.1:{server.server_port}/ask", tmp_path_factory.mktemp("browser"))
        server.shutdown()
    return Site.found


@needs_browser
@pytest.mark.parametrize(("question", "page"), QUESTIONS.items())
def test_a_question_finds_its_page(found: dict[str, list[str]], question: str, page: str) -> None:
    assert page in [location.partition("#")[0] for location in found[question][:3]], found[question][:8]


def test_a_link_to_a_heading_that_is_not_there_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'tiramisu_py[docs]'")
    docs = tmp_path / "docs"
    docs.mkdir()
    text = (ROOT / "mkdocs.yml").read_text()
    validation = text[text.index("validation:") : text.index("\nnav:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: a page\n{validation}\n")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    for heading, accepted in (("here", True), ("there", False)):
        (docs / "index.md").write_text(f"# Title\n\n[a link](#{heading})\n\n## Here\n")
        built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert (built.returncode == 0) == accepted, built.stderr


def test_every_notebook_is_a_page_with_what_its_cells_show(site: Path) -> None:
    for source in (ROOT / "examples" / "notebooks").glob("*.ipynb"):
        page = (site / "notebooks" / source.stem / "index.html").read_text()
        cells = json.loads(source.read_text())["cells"]
        shown = [data for cell in cells for output in cell.get("outputs", ()) for data in output.get("data", ())]
        assert page.count('src="data:image/png;base64,') == shown.count("image/png")
        assert html.escape("".join(cells[1]["source"]).splitlines()[0], quote=False) in page


def test_every_chapter_is_there(site: Path) -> None:
    for source in (ROOT / "docs" / "guide").glob("*.md"):
        assert (site / "guide" / source.stem / "index.html").exists()
