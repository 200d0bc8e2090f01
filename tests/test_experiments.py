"""The thesis's experiments: what they measure is checked, tables and pictures say it, what is wrong is found."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm
from benchmarks import numa
from benchmarks.common import tables
from benchmarks.gpu import cooperative
from benchmarks.thesis import __main__ as thesis
from benchmarks.thesis import cores, figures, gpus, machine, memory, peers, programs, timelines
from tests.mpi.launching import implementations

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
RIGHT = "bit for bit"


def tiny(**changes: Any) -> Any:
    """Sizes that take moments."""
    plan = machine.Plan(
        device="simulator", cores=2, gpus=1, rows=96, columns=300, gpu_rows=24, gpu_columns=70, ranks=(1, 2),
        gpu_ranks=(1,), seconds=0.01, passes=1, small=True,
    )  # fmt: skip
    return replace(plan, **changes)


def rows_of(text: str) -> list[list[str]]:
    """The cells of all tables, headers included."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith(("| -", "| :"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def drawn(picture: str, tag: str) -> int:
    """How many elements of a kind a picture has."""
    return len(ET.fromstring(picture).findall(f".//{{http://www.w3.org/2000/svg}}{tag}"))


# -- each table and figure


ranks_here = pytest.mark.skipif(not implementations(), reason="no MPI on this machine")


@ranks_here
def test_the_blur_on_host_threads_is_timed_on_each_number_of_ranks() -> None:
    section = cores.on_cores(tiny())
    header, *rows = rows_of(section.text)
    assert [row[0] for row in rows] == ["1 rank, 2 threads", "2 ranks, 1 threads"]
    assert all(float(row[1]) > 0 and float(row[2]) > 0 for row in rows)
    assert [row[header.index("thesis")] for row in rows] == ["1.00", "2.28"]
    assert section.verdicts == [RIGHT] * 4
    assert drawn(section.pictures["thesis-5.1"], "rect") == 4 + 2 + 1  # bars, their legend, the ground


@ranks_here
def test_ghost_zones_are_timed_single_and_packed() -> None:
    section = cores.ghost_zones(tiny(rows=76))
    _, row = rows_of(section.text)
    assert row[0] == "2"
    assert row[5:] == ["1.50", RIGHT]
    assert section.verdicts == [RIGHT] * 3
    assert [(what, thesis) for what, thesis, _ in section.beside] == [
        ("packed over single messages, 2 ranks (table 5.4)", "1.50")
    ]
    assert section.beside[0][2] == f"{float(row[1]) / float(row[2]):.2f}" or float(section.beside[0][2]) > 0


@pytest.mark.slow  # ghost zones are timed on ranks in the same way
@ranks_here
def test_five_pictures_are_timed_on_ranks() -> None:
    section = figures.scaling(tiny(rows=38, ranks=(2,)))
    header, row = rows_of(section.text)
    assert header[1:6] == [f"{name}, ms" for name in ("convolution", "cvtColor", "Gaussian", "pipeline", "Sobel")]
    assert row[0] == "2"
    assert section.verdicts == [RIGHT] * 5
    assert drawn(section.pictures["thesis-5-5"], "polyline") == 5


@ranks_here
def test_a_simulated_gpu_gives_verdicts_and_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "drawn", lambda *_: ({}, "timelines"))
    sections = [gpus.on_gpus(tiny()), gpus.cooperative(tiny())]
    assert [len(section.verdicts) for section in sections] == [3, 6]
    for section in sections:
        assert set(section.verdicts) == {RIGHT}
        assert "Simulated times say nothing about GPUs" in section.text
        assert " ms" not in section.text
        assert [ours for _, _, ours in section.beside] == ["simulated: right or wrong only"]
        assert not section.pictures


def test_a_timeline_has_a_bar_for_each_copy_and_kernel() -> None:
    pictures, words = gpus.drawn(tiny(), ["asynchronous"])
    assert "not how long" in words
    rows = timelines.TIMELINES["asynchronous"][1]
    assert drawn(pictures["thesis-5-2"], "rect") >= (rows + 2) + 3 * rows  # copies in; two kernels and a copy out each


def test_memory_nodes_are_compared_where_there_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"matching": 0.005, "mismatched": 0.010, "left alone": 0.006}
    monkeypatch.setattr(numa, "rows", lambda _: list(times.items()))
    monkeypatch.setattr(memory.tm, "memory_nodes", lambda: (0, 1))
    section = memory.memory_nodes(tiny())
    assert section.verdicts == [RIGHT]
    assert section.beside[0][1:] == ("1.87", "2.00")
    assert drawn(section.pictures["thesis-5.5"], "rect") == 3 + 1 + 1
    monkeypatch.setattr(numa, "rows", lambda _: [("matching", 0.005), ("mismatched", "one"), ("left alone", 0.006)])
    monkeypatch.setattr(memory.tm, "memory_nodes", lambda: (0,))
    assert memory.memory_nodes(tiny()).beside[0][2] == "not measured here: one memory node"


def test_halide_is_the_peer_of_the_five_pictures() -> None:
    if not peers.available():
        section = figures.against_halide(tiny())
        assert "pip install 'tiramisu_py[bench]'" in section.text
        assert not section.verdicts
        return
    assert all(peers.agree(name, 40, 300) for name in programs.PICTURES)


# -- what a machine with GPUs would say, from times that are made up


def made_up(times: dict[str, float], ranks: tuple[int, ...]) -> Callable[..., dict[int, Any]]:
    """Measurements: of each number of ranks, times that go down with it."""
    answers = {
        n: {"times": {name: time / n for name, time in times.items()}, "verdicts": dict.fromkeys(times, RIGHT)}
        for n in ranks
    }
    return lambda *_: answers


def test_ratios_stand_beside_those_of_the_thesis(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tiny(device="gpu", gpu_ranks=(1, 2))
    monkeypatch.setattr(gpus, "drawn", lambda *_: ({}, "timelines"))
    times = {"synchronous": 0.030, "asynchronous": 0.012, "pipelined": 0.010}
    monkeypatch.setattr(gpus, "measured", made_up(times, (1, 2)))
    section = gpus.on_gpus(plan)
    header, first, second = rows_of(section.text)
    assert first[1:] == ["30.00", "12.00", "10.00", "2.50", "3.00", "2.05", RIGHT]
    assert second[1:4] == ["15.00", "6.00", "5.00"]
    assert header[4] == "asynchronous over synchronous"
    assert section.beside[0][1:] == ("2.05", "2.50")
    assert drawn(section.pictures["thesis-5.2"], "rect") == 6 + 3 + 1
    splits = {"GPU alone": 0.04, "7 : 1": 0.035, "1 : 1": 0.02, "cores alone": 0.01, "balanced": 0.016}
    monkeypatch.setattr(gpus, "measured", made_up(splits, (1, 2)))
    section = gpus.cooperative(plan)
    assert rows_of(section.text)[1][6] == "2.50"  # of GPU and cores together, not of the cores alone
    assert section.beside[0][1:] == ("3.2", "2.50")
    assert ["2", "0.33", "0.56", "1.14", "1.93"] in rows_of(section.text)


# -- the page


def test_the_page_is_saved_with_its_pictures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(thesis, "plan", lambda *_: tiny())
    monkeypatch.setattr(thesis, "versions", lambda: "versions of everything")
    times = {"single": 0.03, "packed": 0.01, "derived": 0.011}
    monkeypatch.setattr(cores, "measured", made_up(times, (2,)))
    thesis.main(["--save", "--small", "--device", "simulator", "--only", "5.4"])
    page = next(tmp_path.glob("thesis*.md")).read_text()
    assert "versions of everything" in page
    assert ["packed over single messages, 2 ranks (table 5.4)", "1.50", "3.00"] in rows_of(page)
    for line in page.splitlines():
        if line.startswith("!["):
            assert (tmp_path / line[line.index("(") + 1 : -1]).exists()
    assert [*tmp_path.glob("pictures/thesis-5.4*.svg")]


def test_a_wrong_program_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thesis, "plan", lambda *_: tiny())
    monkeypatch.setattr(thesis, "versions", lambda: "")
    answer = made_up({"single": 0.03, "packed": 0.01, "derived": 0.011}, (2,))
    answer()[2]["verdicts"]["packed"] = "WRONG"
    monkeypatch.setattr(cores, "measured", answer)
    with pytest.raises(SystemExit, match=r"wrong results: 5\.4 Ghost zones"):
        thesis.main(["--device", "simulator", "--only", "5.4"])


def test_an_experiment_that_there_is_not_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        thesis.main(["--only", "5.4,6.1"])
    assert "there is no 6.1" in capsys.readouterr().err


@ranks_here
def test_a_check_tells_a_wrong_result_from_a_right_one() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(SCRIPTS)!r})\n"
        "from benchmarks import blur\n"
        "from benchmarks.thesis import timed as t\n"
        "f, g = blur.tiled(), blur.tiled(exact=True)\n"
        "picture = {'image': t.random_picture(9, 40)}\n"
        "print(t.right(f, f.compile(), picture, False), t.right(f, g.compile(), picture, False))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "False"]


@pytest.mark.parametrize(("free", "cores", "columns"), [(2**35, 2, 4096), (2**36, 64, 32768), (2**31, 16, 4096)])
def test_sizes_fit_the_machine(monkeypatch: pytest.MonkeyPatch, free: int, cores: int, columns: int) -> None:
    monkeypatch.setattr(machine, "free_memory", lambda: free)
    monkeypatch.setattr(machine, "cores", lambda: cores)
    planned = machine.plan("simulator", False)
    assert planned.rows == 16000
    assert planned.columns == columns
    assert 4 * planned.rows * planned.columns <= free / 8
    assert planned.ranks == tuple(n for n in (1, 2, 4, 8, 16) if n <= max(4, cores))


def test_a_sweep_is_compared_with_either_alone_and_with_the_balance() -> None:
    rows = [
        ("0", "8", "5.0", "2.50", "cores alone"),
        ("6", "2", "2.0", "1.00", "balance(), best"),
        ("8", "0", "6.0", "3.00", "GPU alone"),
    ]
    words = cooperative.compared(rows)
    assert "3.00 times as fast as the GPU alone" in words
    assert "2.50 times as fast as the cores alone" in words
    assert "takes 1.00 times as long as the best" in words


def test_cooperative_stories_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    story = programs.example("cooperative", "blur")
    monkeypatch.setattr(cooperative, "STORIES", ("blur",))
    monkeypatch.setattr(story, "VARIANTS", {"at once": story.at_once})
    ways = ["at once", "at once, page-locked, traced"]
    assert cooperative.checked("simulator") == [["cooperative blur", way, "right"] for way in ways]
    monkeypatch.setattr(tm.Function, "evaluate", lambda *_, **__: 0)
    assert cooperative.checked("simulator")[0][2].startswith("WRONG for 0 rows on the GPU at size 1")
