"""Samples of input-aware tuning in the file of measurements: kernels by their text, and their times at sizes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiramisu_py.errors import TuningError
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.learned.samples.ranges import Ranges, Sizes, hull, written
from tiramisu_py.tuning.search.database import ATTEMPTS, TuningFile
from tiramisu_py.tuning.search.space import Point, Space

#: What a sample says at which the process ended too often.
DIED = f"the process ended while it was measured, {ATTEMPTS} times"


@dataclass(frozen=True)
class Sampled:
    """The time of a kernel at some sizes, with the largest of its samples over the least; or `reason`, why there is
    none.
    """

    seconds: float | None
    spread: float = 1.0
    reason: str = ""


@dataclass(frozen=True)
class Kept:
    """The point that is kept for some sizes: what it is, and its text; predicted and measured seconds."""

    parameters: str
    text: str
    predicted: float | None
    measured: float | None


class SampleStore(TuningFile):
    """The samples of one algorithm on one machine, by one compiler.

    Raises `TuningError` where the file cannot be used: damaged, of another program, on a full disk.
    """

    # -- kernels and their times

    def kernel(self, text: str, function: str, parameters: str) -> int:
        """The number of a kernel."""
        with self._explained():
            row = self._kernel_row(text)
            if row is None:
                with self._transaction():
                    self._connection.execute(
                        "INSERT OR IGNORE INTO kernels (context, text, function, parameters) VALUES (?, ?, ?, ?)",
                        (self._context, text, function, parameters),
                    )
                row = self._kernel_row(text)
        assert row is not None
        return row

    def known_time(self, text: str, sizes: Sizes) -> float | None:
        """The time of a text at some sizes, if there is one."""
        with self._explained():
            kernel = self._kernel_row(text)
        found = None if kernel is None else self.sampled(kernel, sizes)
        return None if found is None else found.seconds

    def sampled(self, kernel: int, sizes: Sizes) -> Sampled | None:
        """The outcome of a kernel at some sizes; None if that is still to be found."""
        with self._explained():
            row = self._connection.execute(
                "SELECT seconds, spread, reason, attempts FROM timings WHERE kernel = ? AND sizes = ?",
                (kernel, written(sizes)),
            ).fetchone()
        if row is None:
            return None
        seconds, spread, reason, attempts = row
        if seconds is None and not reason:  # it was begun
            return Sampled(None, reason=DIED) if attempts >= ATTEMPTS else None
        return Sampled(seconds, spread if spread is not None else 1.0, reason)

    @contextmanager
    def running(self, kernel: int, sizes: Sizes) -> Iterator[None]:
        """A context in which a kernel is measured: if the process ends in it, that is known afterwards."""
        key = kernel, written(sizes)
        with self._explained():
            self._connection.execute(
                "INSERT INTO timings (kernel, sizes, attempts) VALUES (?, ?, 1) "
                "ON CONFLICT (kernel, sizes) DO UPDATE SET attempts = attempts + 1",
                key,
            )
        try:
            yield
        except BaseException:
            with self._explained():
                self._connection.execute(
                    "DELETE FROM timings WHERE kernel = ? AND sizes = ? AND seconds IS NULL AND reason = ''", key
                )
            raise

    def keep(self, some: Mapping[tuple[int, str], Sampled]) -> None:
        """Writes samples, by kernel and sizes, in one transaction."""
        with self._explained(), self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO timings (kernel, sizes, seconds, spread, reason) VALUES (?, ?, ?, ?, ?)",
                [(*key, each.seconds, each.spread, each.reason) for key, each in some.items()],
            )

    def keep_one(self, kernel: int, sizes: Sizes, found: Sampled) -> None:
        """Writes one sample."""
        self.keep({(kernel, written(sizes)): found})

    def times(self) -> dict[tuple[str, str], list[tuple[dict[str, int], float]]]:
        """All times, by the text of the kernel and its point: sizes and seconds, in a fixed order."""
        found: dict[tuple[str, str], list[tuple[dict[str, int], float]]] = {}
        with self._explained():
            rows = self._connection.execute(
                "SELECT text, parameters, sizes, seconds FROM timings JOIN kernels ON kernels.id = kernel "
                "WHERE context = ? AND seconds IS NOT NULL ORDER BY text, sizes",
                (self._context,),
            ).fetchall()
        for text, parameters, sizes, seconds in rows:
            found.setdefault((text, parameters), []).append((json.loads(sizes), seconds))
        return found

    def elsewhere(self) -> dict[str, dict[str, list[tuple[dict[str, int], float]]]]:
        """The times of the same algorithm on other machines or by other compilers: by context, then
        by the point as the file has it.
        """
        found: dict[str, dict[str, list[tuple[dict[str, int], float]]]] = {}
        with self._explained():
            rows = self._connection.execute(
                "SELECT contexts.id, parameters, sizes, seconds FROM timings JOIN kernels ON kernels.id = kernel "
                "JOIN contexts ON contexts.id = context WHERE context != ? AND seconds IS NOT NULL AND workload = "
                "(SELECT workload FROM contexts WHERE id = ?) ORDER BY contexts.id, parameters, sizes",
                (self._context, self._context),
            ).fetchall()
        for context, parameters, sizes, seconds in rows:
            found.setdefault(str(context), {}).setdefault(parameters, []).append((json.loads(sizes), seconds))
        return found

    # -- texts, ranges, models, choices

    def text(self, program: str, emitter: str) -> str | None:
        """The text that is known to be emitted for a program."""
        with self._explained():
            row = self._connection.execute(
                "SELECT text FROM texts WHERE program = ? AND emitter = ?", (program, emitter)
            ).fetchone()
        return None if row is None else str(row[0])

    def keep_text(self, program: str, emitter: str, text: str) -> None:
        """Takes note of an emitted text."""
        with self._explained():
            self._connection.execute("INSERT OR REPLACE INTO texts VALUES (?, ?, ?)", (program, emitter, text))

    def ranges(self) -> dict[str, tuple[int, int]]:
        """The ranges that were sampled."""
        with self._explained():
            rows = self._connection.execute(
                "SELECT size, low, high FROM ranges WHERE context = ?", (self._context,)
            ).fetchall()
        return {size: (low, high) for size, low, high in rows}

    def widen(self, ranges: Ranges) -> None:
        """Takes note of ranges that are sampled."""
        for size, (low, high) in hull([self.ranges(), ranges]).items():
            with self._explained():
                self._connection.execute(
                    "INSERT OR REPLACE INTO ranges (context, size, low, high) VALUES (?, ?, ?, ?)",
                    (self._context, size, low, high),
                )

    def model(self, inputs: str) -> tuple[str, bytes, str] | None:
        """The report, the arrays and the checksum of a model that takes these inputs."""
        with self._explained():
            row = self._connection.execute(
                "SELECT report, arrays, checksum FROM models WHERE context = ? AND inputs = ?", (self._context, inputs)
            ).fetchone()
        return None if row is None else (str(row[0]), bytes(row[1]), str(row[2]))

    def keep_model(self, inputs: str, report: str, arrays: bytes, checksum: str) -> None:
        """Writes a model."""
        with self._explained():
            self._connection.execute(
                "INSERT OR REPLACE INTO models (context, inputs, report, arrays, checksum) VALUES (?, ?, ?, ?, ?)",
                (self._context, inputs, report, arrays, checksum),
            )

    def choice(self, sizes: Sizes) -> Kept | None:
        """The point that is kept for some sizes."""
        with self._explained():
            row = self._connection.execute(
                "SELECT parameters, text, predicted, measured FROM choices WHERE context = ? AND sizes = ?",
                (self._context, written(sizes)),
            ).fetchone()
        return None if row is None else Kept(*row)

    def keep_choice(self, sizes: Sizes, kept: Kept) -> None:
        """Writes the point for some sizes."""
        with self._explained():
            self._connection.execute(
                "INSERT OR REPLACE INTO choices (context, sizes, parameters, text, predicted, measured) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (self._context, written(sizes), kept.parameters, kept.text, kept.predicted, kept.measured),
            )

    def forget_predictions(self) -> None:
        """Takes back the choices that were predicted by a model and not measured."""
        with self._explained():
            self._connection.execute("DELETE FROM choices WHERE context = ? AND measured IS NULL", (self._context,))

    # -- another file

    def merge(self, path: Path) -> int:
        """Takes over the kernels, times and ranges of another file, of all its contexts; returns how many times are
        new. Where both have a time, this file's stays.
        """
        if not path.is_file():
            raise TuningError(f"there is no database {path}: give the file that another collect() wrote")
        TuningFile(path).close()  # refuses another program's file, and takes an older one over
        with self._explained():
            self._connection.execute("ATTACH ? AS other", (str(path),))
            try:
                with self._transaction():
                    before = self._connection.execute("SELECT count(*) FROM timings").fetchone()[0]
                    for statement in _MERGED:
                        self._connection.execute(statement)
                    after = self._connection.execute("SELECT count(*) FROM timings").fetchone()[0]
            finally:
                self._connection.execute("DETACH other")
        return int(after - before)

    def _kernel_row(self, text: str) -> int | None:
        row: sqlite3.Row | None = self._connection.execute(
            "SELECT id FROM kernels WHERE context = ? AND text = ?", (self._context, text)
        ).fetchone()
        return None if row is None else int(row[0])


#: The context of this file for one of the other, which are equal if their keys are.
_HERE = """main.contexts AS here JOIN other.contexts AS there
    ON here.machine = there.machine AND here.compiler = there.compiler AND here.workload = there.workload"""
_MERGED = (
    """INSERT OR IGNORE INTO main.contexts (machine, compiler, workload, description)
        SELECT machine, compiler, workload, description FROM other.contexts WHERE id IN
        (SELECT context FROM other.kernels)""",
    f"""INSERT OR IGNORE INTO main.kernels (context, text, function, parameters)
        SELECT here.id, k.text, k.function, k.parameters FROM {_HERE}
        JOIN other.kernels AS k ON k.context = there.id""",
    f"""INSERT OR IGNORE INTO main.timings (kernel, sizes, seconds, spread, reason)
        SELECT mine.id, t.sizes, t.seconds, t.spread, t.reason FROM {_HERE}
        JOIN other.kernels AS k ON k.context = there.id
        JOIN main.kernels AS mine ON mine.context = here.id AND mine.text = k.text
        JOIN other.timings AS t ON t.kernel = k.id AND (t.seconds IS NOT NULL OR t.reason != '')""",
    f"""INSERT INTO main.ranges (context, size, low, high)
        SELECT here.id, r.size, r.low, r.high FROM {_HERE} JOIN other.ranges AS r ON r.context = there.id
        WHERE true ON CONFLICT (context, size) DO UPDATE
        SET low = min(low, excluded.low), high = max(high, excluded.high)""",
    "INSERT OR IGNORE INTO main.texts SELECT * FROM other.texts",
)  # fmt: skip


def plain_point(point: Mapping[str, Any]) -> str:
    """A point as the file has it: values that JSON does not have are written as Python does."""
    return json.dumps(dict(point), default=repr)


def point_of(written_point: str, space: Space) -> Point | None:
    """The point of a space that the file has; None if it is no point of this space."""
    given = json.loads(written_point)
    if not isinstance(given, dict) or given.keys() != space.values.keys():
        return None
    found = {}
    for name, values in space.values.items():
        kept = json.dumps(given[name])
        alike = [value for value in values if json.dumps(value, default=repr) == kept]
        if not alike:
            return None
        found[name] = alike[0]
    return found if space.allows(found) else None
