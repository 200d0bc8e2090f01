"""The notebooks run: every cell, in order, in one session, and shows what a notebook would show."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.view.pictures.browser import needs_browser
from tests.view.pictures.test_guide_pictures import TOLERATED, needs_fonts
from tiramisu_py.view import Picture

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from guide_pictures import unlike  # noqa: E402
from notebook_pictures import kept, taken, values  # noqa: E402

FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(notebook: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == kind]


def shown(source: str, session: dict[str, object]) -> str:
    """Runs a cell: what it prints, and its last expression as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), session)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), session)
            if value is not None:
                print(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
    return out.getvalue()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {"__name__": "__main__"}
    for cell in cells(notebook, "code"):
        found = shown("".join(cell["source"]), session)
        assert bool(found) == bool(cell["outputs"]), "".join(cell["source"])


def test_there_are_six_and_each_begins_with_a_title_and_checks_a_result() -> None:
    assert len(NOTEBOOKS) == 6
    for notebook in NOTEBOOKS:
        assert "".join(cells(notebook, "markdown")[0]["source"]).startswith("# ")
        code = "".join("".join(cell["source"]) for cell in cells(notebook, "code"))
        assert "assert " in code, notebook.name


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_error_and_no_place_of_its_author(notebook: Path) -> None:
    text = notebook.read_text()
    assert '"output_type": "error"' not in text
    assert not any(place in text for place in ("/home/", "/root/", f"{FOLDER.parent.parent}/"))


@needs_browser
@needs_fonts
def test_pictures_are_seen_without_running_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = 0
    for cell, value in values(json.loads((FOLDER / "02_seeing.ipynb").read_text())):
        if isinstance(value, Picture):
            picture = kept(cell, tmp_path / "kept.png")
            assert picture is not None, "scripts/notebook_pictures.py takes it"
            assert unlike(taken(value, tmp_path), picture) <= TOLERATED, "scripts/notebook_pictures.py takes it anew"
            seen += 1
    assert seen == 3
