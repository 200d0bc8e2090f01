"""The database of measurements: one SQLite file, in which each outcome is committed as soon as it is known.

::

    contexts    what an outcome holds for: a machine, a compiler, and the arguments, or an algorithm of any sizes
    points      a program in a context, and its outcome
    samples     the times of a point's calls: all that were ever taken
    kernels     an emitted text in a context of an algorithm (input-aware tuning)
    timings     the time of a kernel at some sizes, or why there is none
    texts       the text that one version of this package emits for a program
    ranges      the sizes that were sampled in a context
    models      a model of the times in a context
    choices     the point that is kept for some sizes
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiramisu_py.errors import ArgumentError, TuningError
from tiramisu_py.queries import digest
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.search.stopwatch import Samples

#: The version of the tables below: increased when they change.
VERSION = 2
#: What tells this file from other SQLite databases: "tmtn".
APPLICATION = 0x746D746E
#: The seconds for which a process waits for another that writes.
PATIENCE = 60.0
#: A point at whose measurement the process ended this many times is not tried again.
ATTEMPTS = 2

_TABLES = """
CREATE TABLE contexts (
    id INTEGER PRIMARY KEY,
    machine TEXT NOT NULL, compiler TEXT NOT NULL, workload TEXT NOT NULL,  -- keys of the descriptions
    description TEXT NOT NULL,                                              -- all three as JSON
    UNIQUE (machine, compiler, workload)
);
CREATE TABLE points (
    id INTEGER PRIMARY KEY,
    context INTEGER NOT NULL REFERENCES contexts,
    program TEXT NOT NULL,                                                  -- key of algorithm and commands
    function TEXT NOT NULL, parameters TEXT NOT NULL, commands TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('running', 'measured', 'stopped', 'pruned', 'failed')),
    reason TEXT NOT NULL DEFAULT '',
    pace REAL NOT NULL DEFAULT 1,                                           -- of the machine, see stopwatch.py
    attempts INTEGER NOT NULL DEFAULT 0,
    time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UNIQUE (context, program)
);
CREATE TABLE samples (
    point INTEGER NOT NULL REFERENCES points,
    size INTEGER NOT NULL, number INTEGER NOT NULL,
    seconds REAL NOT NULL,
    time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (point, size, number)
);
"""
#: What version 2 has in addition: a file of version 1 is taken over.
_SECOND = """
CREATE TABLE kernels (
    id INTEGER PRIMARY KEY,
    context INTEGER NOT NULL REFERENCES contexts,
    text TEXT NOT NULL,                                                     -- key of what is compiled
    function TEXT NOT NULL, parameters TEXT NOT NULL,
    UNIQUE (context, text)
);
CREATE TABLE timings (
    kernel INTEGER NOT NULL REFERENCES kernels,
    sizes TEXT NOT NULL,                                                    -- JSON, in order of names
    seconds REAL, spread REAL,                                              -- spread: the largest sample over the least
    reason TEXT NOT NULL DEFAULT '',                                        -- why there are no seconds
    attempts INTEGER NOT NULL DEFAULT 0,
    time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (kernel, sizes)
);
CREATE TABLE texts (
    program TEXT NOT NULL, emitter TEXT NOT NULL,                           -- algorithm and commands; who emits
    text TEXT NOT NULL,
    PRIMARY KEY (program, emitter)
);
CREATE TABLE ranges (
    context INTEGER NOT NULL REFERENCES contexts,
    size TEXT NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL,
    PRIMARY KEY (context, size)
);
CREATE TABLE models (
    context INTEGER NOT NULL REFERENCES contexts,
    inputs TEXT NOT NULL,                                                   -- key of the columns that it takes
    report TEXT NOT NULL, arrays BLOB NOT NULL, checksum TEXT NOT NULL,
    time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (context, inputs)
);
CREATE TABLE choices (
    context INTEGER NOT NULL REFERENCES contexts,
    sizes TEXT NOT NULL,
    parameters TEXT NOT NULL, text TEXT NOT NULL,
    predicted REAL, measured REAL,
    time TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (context, sizes)
);
"""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a point: "measured", "stopped" (early), "pruned" (by the proof) or "failed", with the reason
    of the last two, and the samples of the first two with the pace of the machine meanwhile.
    """

    kind: str
    reason: str = ""
    samples: Samples = ()
    pace: float = 1.0


@dataclass(frozen=True)
class Label:
    """A point as a reader of the database sees it."""

    function: str
    parameters: str
    commands: str


class TuningFile:
    """A file of measurements, and a context in it, if there is a `workload`. Raises `TuningError` if the file cannot be
    used.
    """

    def __init__(self, path: Path, machine: Any = None, compiler: Any = None, workload: Any = None) -> None:
        self._path = path
        if path.is_dir():
            raise TuningError(f"the database {path} is a folder: give the path of a file, database='tuning.sqlite'")
        with self._explained():
            self._connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        try:
            with self._explained():
                self._connection.execute("PRAGMA foreign_keys = ON")
                self._prepare()
                self._context = 0 if workload is None else self._context_of(machine, compiler, workload)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    # -- the file

    def _prepare(self) -> None:
        """Makes the tables in an empty file, and refuses a file of another program or of a newer version."""
        with self._transaction():
            version, application = self._pragma("user_version"), self._pragma("application_id")
            (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if not tables:
                self._add(_TABLES + _SECOND)
                self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
            elif application != APPLICATION:
                raise TuningError(f"{self._path} is a database of another program: give another path, database=")
            elif version == 1:
                self._add(_SECOND)
            elif version != VERSION:
                raise TuningError(
                    f"{self._path} has version {version} of the tables, of a newer tiramisu_py: this one knows version "
                    f"{VERSION}; give another path, database="
                )

    def _add(self, tables: str) -> None:
        for statement in tables.split(";\n"):
            self._connection.execute(statement)
        self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _context_of(self, machine: Any, compiler: Any, workload: Any) -> int:
        keys = tuple(digest(described) for described in (machine, compiler, workload))
        description = json.dumps({"machine": machine, "compiler": compiler, "workload": workload}, sort_keys=True)
        with self._transaction():
            self._connection.execute(
                "INSERT OR IGNORE INTO contexts (machine, compiler, workload, description) VALUES (?, ?, ?, ?)",
                (*keys, description),
            )
            (found,) = self._connection.execute(
                "SELECT id FROM contexts WHERE machine = ? AND compiler = ? AND workload = ?", keys
            ).fetchone()
        return int(found)

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A context whose faults of SQLite are `TuningError`s that name the file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise TuningError(
                f"the database {self._path} cannot be used: {error}; give another path, database="
            ) from error
        except sqlite3.DatabaseError as error:
            raise TuningError(
                f"the database {self._path} is damaged, or no SQLite database: {error}; move it away to begin again, "
                "or give another path, database="
            ) from error


class Database(TuningFile):
    """The outcomes of the programs of one context."""

    def known(self, program: str) -> Outcome | None:
        """The outcome of a program; None if it is still to be found, or has failed in another search."""
        with self._explained():
            row = self._connection.execute(
                "SELECT id, outcome, reason, attempts, pace FROM points WHERE context = ? AND program = ?",
                (self._context, program),
            ).fetchone()
            if row is None:
                return None
            point, outcome, reason, attempts, pace = row
            if outcome == "failed":  # for want of memory, perhaps
                return None
            if outcome != "running":
                return Outcome(outcome, reason, self._samples(point), pace)
        if attempts >= ATTEMPTS:
            return Outcome("failed", f"the process ended while it was measured, {attempts} times")
        return None

    @contextmanager
    def running(self, program: str, label: Label) -> Iterator[None]:
        """A context in which a program is measured: if the process ends in it, that is known afterwards."""
        with self._explained():
            self._connection.execute(
                "INSERT INTO points (context, program, function, parameters, commands, outcome, attempts) "
                "VALUES (?, ?, ?, ?, ?, 'running', 1) ON CONFLICT (context, program) DO UPDATE "
                "SET attempts = CASE outcome WHEN 'running' THEN attempts + 1 ELSE 1 END, outcome = 'running' "
                "WHERE outcome IN ('running', 'failed')",
                (self._context, program, label.function, label.parameters, label.commands),
            )
        try:
            yield
        except BaseException:
            with self._explained():
                self._connection.execute(
                    "DELETE FROM points WHERE context = ? AND program = ? AND outcome = 'running'",
                    (self._context, program),
                )
            raise

    def keep(self, program: str, label: Label, outcome: Outcome) -> None:
        """Writes an outcome, with all its samples; those that are there already stay."""
        with self._explained(), self._transaction():
            self._connection.execute(
                "INSERT INTO points (context, program, function, parameters, commands, outcome, reason, pace) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (context, program) DO UPDATE "
                "SET outcome = excluded.outcome, reason = excluded.reason, pace = excluded.pace, attempts = 0, "
                "time = CURRENT_TIMESTAMP",
                (
                    self._context, program, label.function, label.parameters, label.commands, outcome.kind,
                    outcome.reason, outcome.pace,
                ),
            )  # fmt: skip
            (point,) = self._connection.execute(
                "SELECT id FROM points WHERE context = ? AND program = ?", (self._context, program)
            ).fetchone()
            self._connection.executemany(
                "INSERT OR IGNORE INTO samples (point, size, number, seconds) VALUES (?, ?, ?, ?)",
                [
                    (point, size, number, seconds)
                    for size, case in enumerate(outcome.samples)
                    for number, seconds in enumerate(case)
                ],
            )

    def _samples(self, point: int) -> Samples:
        found: dict[int, list[float]] = {}
        rows = self._connection.execute(
            "SELECT size, seconds FROM samples WHERE point = ? ORDER BY size, number", (point,)
        )
        for size, seconds in rows:
            found.setdefault(size, []).append(seconds)
        return tuple(tuple(found.get(size, ())) for size in range(max(found, default=-1) + 1))


def database_path(given: object, folder: Path) -> Path:
    """The path that the user gives, or the usual one in the folder of the cache. Raises `ArgumentError`."""
    if given is None:
        return folder / "tuning.sqlite"
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str) or not os.fspath(given):
        raise ArgumentError(f"database={given!r}: give the path of a file, such as 'tuning.sqlite'")
    return Path(given)


def label_of(function: str, parameters: Mapping[str, Any], commands: tuple[object, ...]) -> Label:
    """A point as readers see it: values that JSON does not have are written as Python does."""
    return Label(function, json.dumps(dict(parameters), default=repr), "\n".join(map(str, commands)))
