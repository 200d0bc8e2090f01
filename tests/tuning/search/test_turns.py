"""Turns of searches, and the line that says how far a search is."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tiramisu_py.tuning.search import status_line
from tiramisu_py.tuning.search.status_line import Progress
from tiramisu_py.tuning.search.turns import Turns


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_one_search_at_a_time_has_the_turn(tmp_path: Path) -> None:
    one, other = Turns(tmp_path), Turns(tmp_path)
    waited: list[int] = []
    with one.turn(lambda: False, lambda: None) as first:
        assert first
        with other.turn(lambda: len(waited) == 3, lambda: waited.append(1)) as second:
            assert not second
    assert len(waited) == 3
    with other.turn(lambda: False, lambda: waited.append(1)) as second:
        assert second
        with one.turn(lambda: True, lambda: None) as first:
            assert not first
    assert len(waited) == 3


def test_an_error_ends_the_turn(tmp_path: Path) -> None:
    one, other = Turns(tmp_path), Turns(tmp_path)
    with pytest.raises(KeyboardInterrupt), one.turn(lambda: False, lambda: None):
        raise KeyboardInterrupt
    with other.turn(lambda: True, lambda: None) as mine:
        assert mine


def test_a_terminal_has_one_line_that_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    line = Progress(None, stream)
    for text in ("1 of 3", "2 of 3, and many more words", "2 of 3, and many more words", "3 of 3"):
        line.show(text)
    line.close()
    assert stream.getvalue() == "\r1 of 3\x1b[K\r2 of 3, and many mo\x1b[K\r3 of 3\x1b[K\n"


def test_elsewhere_there_are_lines_only_if_they_are_wanted_and_not_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(status_line.time, "monotonic", lambda: now[0])
    silent, stream = io.StringIO(), io.StringIO()
    for line in (Progress(None, silent), Progress(False, Terminal()), Progress(True, stream)):
        now[0] = 100.0
        for text in ("first", "too early", "late"):
            line.show(text)
            now[0] += status_line.APART / 2
        line.show("done", last=True)
        line.close()
    assert silent.getvalue() == ""
    assert stream.getvalue() == "first\nlate\ndone\n"
