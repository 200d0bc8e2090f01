"""Progress of long steps: shown where asked, after some time, and with what would make them shorter."""

from __future__ import annotations

import io
import logging
import sys
import time

import pytest

from tiramisu_py import progress


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setenv(progress.VARIABLE, "")  # which is undone afterwards, whatever `show` writes
    progress.show(None)


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, seconds: float = 0.1) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.step("blur: proof", "give sizes"):
        waited(stream, seconds)
    return stream.getvalue()


def waited(stream: io.StringIO, seconds: float) -> None:
    """Waits until something is shown that should be, or for so many seconds."""
    expected = progress._is_shown(stream) and seconds > 0
    end = time.monotonic() + (20.0 if expected else seconds)
    while not stream.getvalue() and time.monotonic() < end:
        time.sleep(0.01)


def test_a_long_step_is_shown_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    progress.show()
    first, last = shown(monkeypatch, io.StringIO()).splitlines()
    assert first.startswith("blur: proof, 0 s")
    assert last.startswith("blur: proof took 0.")
    assert last.endswith("(give sizes)")


def test_a_terminal_shows_it_unless_asked_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\r\x1b[Kblur: proof, " in shown(monkeypatch, Terminal())
    progress.show(False)
    assert shown(monkeypatch, Terminal()) == ""


def test_other_streams_show_nothing_unless_the_environment_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""
    monkeypatch.setenv(progress.VARIABLE, "1")
    assert "took" in shown(monkeypatch, io.StringIO())
    monkeypatch.setenv(progress.VARIABLE, "0")
    assert shown(monkeypatch, Terminal()) == ""


def test_a_short_step_is_logged_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 60.0)
    with caplog.at_level(logging.INFO, "tiramisu_py"):
        assert shown(monkeypatch, Terminal(), 0.0) == ""
    assert "blur: proof: 0.0" in caplog.text


def test_a_step_ends_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    progress.show()
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(ValueError, match="no"), progress.step("outer"):
        waited(stream, 0.1)
        raise ValueError("no")
    assert "outer took" in stream.getvalue()
