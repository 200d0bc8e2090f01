"""The search through the numbers of the stories' schedules: where it goes, what it keeps, and that spaces are right."""

from __future__ import annotations

import inspect
import random
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm
from benchmarks.auto.programs import all_programs, several
from benchmarks.common import tables
from benchmarks.numbers import __main__ as numbers
from benchmarks.numbers import worker
from benchmarks.numbers.spaces import SPACES, Point, told
from benchmarks.numbers.worker import Found, Result
from tests.selection import first
from tiramisu_py.toolchain.compilers.processor import VARIABLE

NAMES = list(SPACES)


def test_numbers_are_gone_through_one_after_another_from_the_best_point() -> None:
    times = {"rows": {1: 1.0, 2: 0.8, 4: 0.79}, "lanes": {8: 1.0, 16: 1.5, 32: 0.5}}
    tried: list[Point] = []

    def result(point: Point) -> Result:
        tried.append(point)
        own = times["rows"][point.get("rows", 1)] * times["lanes"][point.get("lanes", 8)]
        return Result(point, own, 1.0, dropped=own > worker.DROPPED)

    worker.searched({"rows": (2, 4), "lanes": (16, 32)}, result)
    assert tried[:4] == [{"rows": 2}, {"rows": 4}, {"rows": 4, "lanes": 16}, {"rows": 4, "lanes": 32}]
    assert all(point.get("lanes") == 32 or point.get("rows") for point in tried) and len(tried) < 9
    assert told(tried[3]) == "rows=4, lanes=32" and told({}) == "as derived"


def test_a_search_goes_on_where_it_stopped_and_begins_anew_for_another_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program, file = all_programs()["resize"], tmp_path / "resize.json"
    monkeypatch.setattr(worker, "SPACES", {"resize": {"vectors": (1, 2), "band": (8,)}})
    monkeypatch.setattr(worker, "TURN_SECONDS", 0.0)
    worker.search(program, (32, 40), file, 0.0)
    assert not Found.read(file).complete and not Found.read(file).results
    worker.search(program, (32, 40), file, 60.0)
    found = Found.read(file)
    points = [each.point for each in found.results]  # those that the schedule states are not measured again
    assert found.complete and {"vectors": 2} in points and not any(each.get("vectors") == 1 for each in points)
    assert all(each.own > 0 and each.derived > 0 for each in found.results)
    monkeypatch.setattr(worker.Bench, "result", lambda *_: pytest.fail("measured again"))
    worker.search(program, (32, 40), file, 60.0)
    assert Found.read(file) == found
    found.key = "another text"
    found.keep(file)
    with pytest.raises(pytest.fail.Exception, match="measured again"):
        worker.search(program, (32, 40), file, 60.0)


def test_a_schedule_with_other_values_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    program = all_programs()["resize"]
    bench = worker.Bench(program, (32, 40))
    bench.right[0][0] += 1
    with pytest.raises(SystemExit, match="resize with band=8 differs in 1280 of"):
        bench.result({"band": 8})
    assert bench.result({"band": -1}).refused


def test_the_page_has_a_row_for_each_story(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    results = [
        Result({"band": 8}, 1.0, 1.2),
        Result({"band": 2}, 2.0, 1.2, dropped=True),
        Result({"x": 1}, refused="no"),
    ]
    Found("key", (37, 41), results, True, ", commit 12ab").keep(tmp_path / "harris-native.json")
    Found("key", (37, 41), results[1:], True).keep(tmp_path / "resize-native.json")
    numbers.main(["--numbers", "--save", "--known", "--only", "harris,resize", "--found", str(tmp_path)])
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in (tmp_path / "tune.md").read_text().splitlines()
    ]
    assert ["harris", "37 x 41", "1.200", "band=8", "1.000", "1.20", "3", "1", "1", "12ab"] in rows
    assert ["resize", "37 x 41", "1.200", "as derived", "", "", "2", "1", "1", ""] in rows
    assert ["harris", "x=1", "refused: no"] in rows and ["resize", "band=2", "0.60 (dropped)"] in rows


@pytest.mark.parametrize("name", NAMES)
def test_spaces_are_of_arguments_of_the_schedules(name: str) -> None:
    parameters = inspect.signature(all_programs()[name].story.scheduled).parameters
    free = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    assert free or set(SPACES[name]) <= set(parameters)
    assert all(len(set(map(str, values))) == len(values) for values in SPACES[name].values())


@pytest.mark.parametrize("name", first(NAMES[1:] + NAMES[:1], 1))
def test_a_point_has_the_values_of_the_derived_schedule(name: str) -> None:
    program, space = all_programs()[name], SPACES[name]
    drawn = random.Random(name)
    point: dict[str, Any] = {key: drawn.choice(values) for key, values in space.items()}
    try:
        kernel = worker.compiled(program, point)
    except tm.CommandError:  # two vectors may have more lanes than there are
        kernel = worker.compiled(program, {key: value for key, value in point.items() if key != "vectors"})
    derived = worker.compiled(program, {})
    given = program.story.sample(*program.small[-1])
    for found, right in zip(several(kernel(**given)), several(derived(**given)), strict=True):
        assert not program.differs(found, right)
    assert isinstance(kernel, tm.Kernel)
