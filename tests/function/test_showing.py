"""Pictures that cannot be written say why, and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm


def small() -> tm.Function:
    (N,) = tm.params("N")
    (i,) = tm.iters("i")
    f = tm.Function("small", params=[N])
    f.outputs(f.computation("a", {i: N}, i))
    return f


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("none/a.html", "there is no folder none; create it first"),
        (".", "is a folder: give the path of a file, such as 'blur.html'"),
        (3, "3 is not the path of a file: give a text, such as 'blur.html'"),
    ],
)
def test_a_picture_needs_a_file(path: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tm.SavedError, match=re.escape(words)):
        small().show("picture", path, N=3)
    assert not list(tmp_path.iterdir())


def test_a_picture_is_written_whole(tmp_path: Path) -> None:
    drawn = small().show("picture", tmp_path / "a.html", N=3)
    assert (tmp_path / "a.html").read_text() == drawn.html
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]
