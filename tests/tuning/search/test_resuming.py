"""What a search leaves behind, and what the next one takes from it: of the same program, machine and compiler."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.tuning.search.laboratory import SIZES, SPACE, K, Laboratory, M, N, i, j, k, make
from tiramisu_py.function.results import Emission
from tiramisu_py.queries import identity
from tiramisu_py.queries.identity import program_key
from tiramisu_py.tuning.search import tuner
from tiramisu_py.tuning.search.proposals import EveryPoint
from tiramisu_py.tuning.search.space import Space

ROOT = Path(__file__).resolve().parents[3]


def rows(laboratory: Laboratory, query: str) -> list[Any]:
    with sqlite3.connect(laboratory.folder / "tuning.sqlite") as connection:
        return connection.execute(query).fetchall()


def test_a_second_search_measures_nothing(laboratory: Laboratory) -> None:
    first = laboratory.tune()
    laboratory.forget()
    second = laboratory.tune()
    assert not laboratory.compiled
    assert laboratory.samples == 0
    assert [(p.parameters, p.outcome, p.reason, p.samples) for p in first.points] == [
        (p.parameters, p.outcome, p.reason, p.samples) for p in second.points
    ]
    assert second.best.commands == first.best.commands
    assert second.best.reused
    assert not first.best.reused


@pytest.mark.parametrize("sample", [0, 1, 4, 7])
def test_a_search_that_is_interrupted_goes_on_where_it_was(laboratory: Laboratory, sample: int) -> None:
    whole = laboratory.tune(database=laboratory.folder / "whole.sqlite")
    laboratory.forget()

    def stop(number: int) -> None:
        if number == sample:
            raise KeyboardInterrupt

    laboratory.interrupt = stop
    with pytest.raises(KeyboardInterrupt):
        laboratory.tune()
    kept = rows(laboratory, "SELECT program FROM points WHERE outcome IN ('measured', 'stopped')")
    assert not rows(laboratory, "SELECT program FROM points WHERE outcome = 'running'")
    laboratory.forget()
    laboratory.interrupt = lambda number: None
    result = laboratory.tune()
    assert len(laboratory.measured) == 3 - len(kept)
    assert [(p.parameters, p.samples) for p in result.points] == [(p.parameters, p.samples) for p in whole.points]


def test_every_sample_is_kept(laboratory: Laboratory) -> None:
    result = laboratory.tune(sizes=[SIZES, {**SIZES, "M": 40}])
    taken = sum(len(case) for point in result.points for case in point.samples)
    assert rows(laboratory, "SELECT count(*), sum(seconds > 0) FROM samples") == [(taken, taken)]
    assert taken == laboratory.samples
    (commands,) = rows(laboratory, 'SELECT commands FROM points WHERE parameters LIKE \'%8, "loop": "i"%\'')[0]
    assert commands.splitlines() == [str(command) for command in result.best.commands]


def test_a_point_at_which_the_process_dies_twice_is_not_tried_again(tmp_path: Path) -> None:
    """A process that kills itself at one point, started four times: the third search passes by, the fourth too."""
    script = tmp_path / "search.py"
    script.write_text(
        "import os, signal, sys\n"
        "import tiramisu_py as tm\n"
        "from tests.tuning.search.laboratory import SIZES, make\n"
        "from tiramisu_py.tuning.search.stopwatch import Stopwatch\n"
        "from tiramisu_py.tuning.search.bench import Bench\n"
        "calls = Bench.calls\n"
        "def deadly(bench, kernel, what):\n"
        "    if 'lanes=4' in what:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return calls(bench, kernel, what)\n"
        "Bench.calls = deadly\n"
        "found = tm.tune(make, {'lanes': [2, 4, 8], 'loop': ['i']}, sizes=SIZES, database=sys.argv[1], repeats=1)\n"
        "print(found.measured, found.failed, found.table())\n"
    )
    database = tmp_path / "t.sqlite"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    runs = [
        subprocess.run([sys.executable, script, database], capture_output=True, text=True, env=environment, check=False)
        for _ in range(4)
    ]
    assert [run.returncode for run in runs] == [-signal.SIGKILL, -signal.SIGKILL, 0, 0], runs[-1].stderr
    for run in runs[2:]:
        assert run.stdout.startswith("2 1 ")
        assert "the process ended while it was measured, 2 times" in run.stdout


def test_a_point_that_was_stopped_early_is_measured_on_where_the_best_is_missing(laboratory: Laboratory) -> None:
    laboratory.cost = lambda point, sample: {2: 3.0, 4: 2.0, 8: 1.0, 16: 2.9}[point["lanes"]]
    lanes = [2, 4, 8, 16]
    space = Space({"lanes": lanes, "loop": ["i"]})
    seed = next(seed for seed in range(100) if EveryPoint(space, seed).take(1)[0]["lanes"] == 8)
    slow = laboratory.tune({"lanes": lanes, "loop": ["i"]}, seed=seed)
    stopped = {point.parameters["lanes"]: len(point.samples[0]) for point in slow.points if point.outcome == "stopped"}
    assert stopped == {2: 1, 4: 2, 16: 1}
    laboratory.forget()
    result = laboratory.tune({"lanes": [2, 4, 16], "loop": ["i"]})
    assert result.best.parameters["lanes"] == 4
    assert result.best.seconds == 2.0
    assert laboratory.samples > 0
    laboratory.forget()
    assert laboratory.tune({"lanes": [2, 4, 16], "loop": ["i"]}).best.seconds == 2.0
    assert laboratory.samples == 0


@pytest.mark.parametrize("what", ["machine", "compiler flags", "options", "procedure", "sizes", "threads"])
def test_what_was_measured_elsewhere_does_not_count(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    laboratory.tune()
    laboratory.forget()
    options: dict[str, Any] = {}
    match what:
        case "machine":
            monkeypatch.setattr(identity, "this_machine", lambda: "another one")
        case "compiler flags":
            monkeypatch.setattr(identity, "target_flags", lambda *_: ("-O9",))
        case "options":
            options = {"fast": ("contract",)}
        case "procedure":
            monkeypatch.setattr(identity, "PROCEDURE", identity.PROCEDURE + 1)
        case "sizes":
            options = {"sizes": {**SIZES, "N": 6}}
        case "threads":
            monkeypatch.setenv("OMP_NUM_THREADS", "3")
    laboratory.tune(**options)
    assert len(laboratory.measured) >= 3
    assert rows(laboratory, "SELECT count(*) FROM contexts") == [(2,)]


def test_what_was_measured_of_another_text_does_not_count(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of the package may emit another text for the same program."""
    laboratory.tune()
    laboratory.forget()
    emission = tuner.emission

    def changed(f: tm.Function, **options: Any) -> Emission:
        found = emission(f, **options)
        return replace(found, sources={**found.sources, "gemm.c": "/* another */"}) if "4" in str(f.commands) else found

    monkeypatch.setattr(tuner, "emission", changed)
    laboratory.tune()
    assert [point["lanes"] for point in laboratory.measured] == [4]


def test_values_of_arrays_do_not_count_unless_facts_are_declared(laboratory: Laboratory) -> None:
    def gathered(lanes: int) -> tm.Function:
        f = tm.Function("gathered", params=[N])
        a, at = f.input("a", tm.float32, [N]), f.input("at", tm.int32, [N], values=(0, N))
        b = f.computation("b", {i: N}, a[at[i]])
        f.outputs(b)
        b.vectorize(i, lanes)
        return f

    a, at = np.zeros(20, np.float32), np.arange(20, dtype=np.int32)
    for arrays, times in [({"a": a, "at": at}, 1), ({"a": a + 1, "at": at}, 0), ({"a": a, "at": at[::-1].copy()}, 1)]:
        laboratory.forget()
        laboratory.tune({"lanes": [4]}, gathered, sizes=None, arguments=arrays)
        assert len(laboratory.measured) == times


def test_the_key_of_a_program_is_equal_wherever_it_is_written(tmp_path: Path) -> None:
    f, same, other = make(4, "i"), make(4, "i"), make(8, "i")
    assert program_key(f.algorithm, f.commands) == program_key(same.algorithm, same.commands)
    assert program_key(f.algorithm, f.commands) != program_key(other.algorithm, other.commands)
    f.save(tmp_path / "f.json")
    loaded = tm.load(tmp_path / "f.json")
    assert program_key(loaded.algorithm, loaded.commands) == program_key(f.algorithm, f.commands)

    elsewhere = tm.Function("product", params=[N, M, K])  # the same algorithm, on other lines
    a, b = elsewhere.input("a", tm.int32, [N, K]), elsewhere.input("b", tm.int32, [K, M])
    c = elsewhere.reduction("c", {i: N, j: M}, {k: K}, tm.sum, a[i, k] * b[k, j])
    elsewhere.outputs(c)
    assert program_key(elsewhere.algorithm, f.commands) == program_key(f.algorithm, f.commands)


def _search(database: Path, results: Any) -> None:
    found = tm.tune(make, SPACE, sizes=SIZES, database=database, repeats=2, workers=1)
    results.put((found.measured, found.pruned, sum(point.reused for point in found.points), found.best.samples))


def test_two_processes_share_one_search(tmp_path: Path) -> None:
    """Both end with all points; what one of them has measured, the other one does not measure."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    both = [context.Process(target=_search, args=(tmp_path / "t.sqlite", results)) for _ in range(2)]
    for process in both:
        process.start()
    found = [results.get(timeout=120) for _ in both]
    for process in both:
        process.join(120)
        assert process.exitcode == 0
    assert [(measured, pruned) for measured, pruned, _, _ in found] == [(3, 5), (3, 5)]
    with sqlite3.connect(tmp_path / "t.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM points").fetchone() == (3 + 3,)  # with those the proof refuses
    assert sum(reused for _, _, reused, _ in found) == 3, "each program is measured in one of them"
