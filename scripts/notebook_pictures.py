"""Puts a picture into each output of a notebook that shows one, so that it is seen without running the notebook.

The cells are run, and what they show is taken in a headless browser. In Jupyter a cell that is run again shows the page
itself. ``tests/test_notebooks.py`` compares the pictures with what the cells show now.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "scripts"))

from guide_pictures import Shown  # noqa: E402
from tests.view.pictures.browser import BROWSER  # noqa: E402
from tiramisu_py.view import Picture  # noqa: E402

NOTEBOOKS = ROOT / "examples" / "notebooks"
#: The window of a picture, and of one with two sides.
ONE, TWO = (1200, 620), (1400, 900)


def values(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], object]]:
    """The cells of a notebook that end with an expression, in order, each with its value."""
    session: dict[str, object] = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(tree, "cell", "exec"), session)
            if isinstance(last, ast.Expr):
                yield cell, eval(compile(ast.Expression(last.value), "cell", "eval"), session)


def taken(shown: Picture, folder: Path) -> Path:
    """The picture of a page, as a file."""
    (folder / "cell.html").write_text(shown.html, encoding="utf-8")
    size = TWO if len(shown.sides) > 1 else ONE
    Shown("cell.png", "cell.html", "", size, dark=False).take(folder, folder / "cell.png")
    return folder / "cell.png"


def kept(cell: dict[str, Any], path: Path) -> Path | None:
    """The picture in the output of a cell, written to a file; None if there is none."""
    for output in cell["outputs"]:
        if "image/png" in output.get("data", {}):
            path.write_bytes(base64.b64decode("".join(output["data"]["image/png"])))
            return path
    return None


def main() -> None:
    """Write the pictures of all notebooks."""
    if BROWSER is None:
        raise SystemExit("no Chromium on this machine: apt-get install chromium fonts-dejavu-core")
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        notebook = json.loads(text)
        if ".show(" not in text:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for cell, value in values(notebook):
                if isinstance(value, Picture):
                    (output,) = cell["outputs"]
                    image = base64.b64encode(taken(value, Path(folder)).read_bytes()).decode()
                    output["data"] = {"image/png": image, "text/plain": [repr(value)]}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
