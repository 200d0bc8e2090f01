"""The file: its version, what is refused as one, and faults of SQLite in words."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import tiramisu_py as tm
from tests.tuning.search.laboratory import Laboratory
from tiramisu_py.tuning.search.database import APPLICATION, ATTEMPTS, VERSION, Database, Label, Outcome, database_path

LABEL = Label("f", "{}", "")


def opened(path: Path, workload: str = "w") -> Database:
    return Database(path, "machine", "compiler", workload)


def test_the_file_tells_its_version_and_whose_it_is(tmp_path: Path) -> None:
    opened(tmp_path / "t.sqlite").close()
    with sqlite3.connect(tmp_path / "t.sqlite") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"contexts", "points", "samples", "kernels", "timings", "choices", "models"} <= tables


def test_an_outcome_is_there_in_another_connection_at_once(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "t.sqlite"), opened(tmp_path / "t.sqlite")
    samples = ((1.0, 0.5), (2.0,))
    one.keep("p", LABEL, Outcome("measured", samples=samples))
    assert other.known("p") == Outcome("measured", samples=samples)
    assert opened(tmp_path / "t.sqlite", "another").known("p") is None
    one.keep("p", LABEL, Outcome("measured", samples=((1.0, 0.5, 0.25), (2.0,))))
    assert other.known("p") == Outcome("measured", samples=((1.0, 0.5, 0.25), (2.0,)))


def test_an_error_while_a_point_runs_leaves_no_trace_and_a_death_does(tmp_path: Path) -> None:
    database = opened(tmp_path / "t.sqlite")
    with pytest.raises(ValueError, match="no"), database.running("p", LABEL):
        raise ValueError("no")
    assert database.known("p") is None
    dead = [opened(tmp_path / "t.sqlite").running("p", LABEL) for _ in range(ATTEMPTS)]
    for attempt, context in enumerate(dead):
        context.__enter__()  # and never left
        known = database.known("p")
        assert (known is not None) == (attempt == ATTEMPTS - 1)
    assert known is not None
    assert known.kind == "failed"


@pytest.mark.parametrize("content", [b"no database, " * 400, b"SQLite format 3\0" + b"x" * 4096])
def test_a_damaged_file_is_refused_with_its_name(laboratory: Laboratory, content: bytes) -> None:
    path = laboratory.folder / "tuning.sqlite"
    path.write_bytes(content)
    with pytest.raises(tm.TuningError, match=r"tuning\.sqlite is damaged, or no SQLite database"):
        laboratory.tune()
    assert path.read_bytes() == content
    assert not laboratory.compiled


def test_a_file_that_is_damaged_later_is_refused_too(laboratory: Laboratory) -> None:
    laboratory.tune()
    path = laboratory.folder / "tuning.sqlite"
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x7f" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(tm.TuningError, match=r"tuning\.sqlite"):
        laboratory.tune()


def test_a_newer_version_and_another_program_are_refused(tmp_path: Path) -> None:
    opened(tmp_path / "t.sqlite").close()
    with sqlite3.connect(tmp_path / "t.sqlite") as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(tm.TuningError, match=f"version {VERSION + 1} of the tables, of a newer"):
        opened(tmp_path / "t.sqlite")
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE letters (text)")
    with pytest.raises(tm.TuningError, match="a database of another program"):
        opened(tmp_path / "other.sqlite")
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("letters",)]


def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tm.TuningError, match="is a folder"):
        opened(tmp_path)
    with pytest.raises(tm.TuningError, match="cannot be used: unable to open"):
        opened(tmp_path / "missing" / "t.sqlite")


def test_the_usual_path_is_in_the_folder_of_the_cache(tmp_path: Path) -> None:
    assert database_path(None, tmp_path) == tmp_path / "tuning.sqlite"
    assert database_path("here.sqlite", tmp_path) == Path("here.sqlite")
