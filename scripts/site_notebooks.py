"""Makes a page of the site of each notebook in examples/notebooks: its text, its programs, and what these show."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NOTEBOOKS = Path(__file__).resolve().parent.parent / "examples" / "notebooks"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages (mkdocs calls this when it has listed the files of docs)."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        content = markdown(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=content))
    return files


def markdown(notebook: dict[str, Any], name: str) -> str:
    """A notebook as Markdown; pictures are in the page itself."""
    parts = list[str]()
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).rstrip("\n")
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_shown(output) for output in cell["outputs"]]
    title, *rest = parts
    where = f"This page is the notebook `examples/notebooks/{name}`, to be run cell by cell in Jupyter."
    return "\n\n".join([title, where, *rest]) + "\n"


def _shown(output: dict[str, Any]) -> str:
    """What a cell has printed or shown: a picture, HTML, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        return f"![{''.join(data['text/plain']).strip('<>')}](data:image/png;base64,{''.join(data['image/png'])})"
    if "text/html" in data:
        return re.sub(r"\n\s*\n", "\n&#8203;\n", "".join(data["text/html"]))  # Markdown ends HTML at an empty line
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip("\n")
    return f"```text\n{text}\n```"
