"""What the benchmarks measure is right: their schedules are legal, and their programs compute the blur."""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import subprocess
import weakref
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmarks
import tiramisu_py as tm
from benchmarks import blur, machine, numa
from benchmarks.apps import __main__ as apps
from benchmarks.apps import cost, opencv, programs
from benchmarks.auto import __main__ as auto
from benchmarks.auto import programs as auto_programs
from benchmarks.blocks import __main__ as blocks
from benchmarks.blocks import worker as blocks_worker
from benchmarks.blocks import workloads as blocks_workloads
from benchmarks.common import one_processor, rounds, shared_arrays, tables
from benchmarks.common.rounds import START
from benchmarks.cpu import __main__ as cpu
from benchmarks.cpu import worker
from benchmarks.reductions import __main__ as reductions
from benchmarks.reductions import peers as reduction_peers
from benchmarks.reductions import workloads as reduction_workloads
from tests.folders import modules_of

BENCHMARKS = Path(benchmarks.__file__).parent
EXAMPLES = BENCHMARKS.parents[1] / "examples"


@pytest.mark.parametrize("schedule", ["tiled", "rows_of_eight"])
@pytest.mark.parametrize("size", [(1, 1), (7, 16), (8, 33), (41, 259)])
def test_a_schedule_of_the_blur_computes_the_blur(schedule: str, size: tuple[int, int]) -> None:
    image = blur.picture(*size)
    across = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) * blur.THIRD
    expected = (across[:-2] + across[1:-1] + across[2:]) * blur.THIRD
    function = getattr(blur, schedule)()
    assert function.check().bits == "bits preserved"
    np.testing.assert_array_equal(function.compile()(image), expected)


def test_the_rows_of_the_blur_are_in_registers() -> None:
    assert "allocate" not in blur.rows_of_eight().source()["blur.c"]


def test_the_limits_of_the_machine_are_measured_and_kept_for_rooflines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(machine, "LEAST", 2**20)
    small = (tm.MemoryLevel("L1", 2**14), tm.MemoryLevel("L2", 2**16), tm.MemoryLevel("L3", 2**18, shared=True))
    monkeypatch.setattr(machine, "levels_here", lambda: small)
    machine.main(["--save", "--rounds", "1", "--milliseconds", "1"])
    page = next(tmp_path.glob("machine*.md")).read_text()
    assert page in capsys.readouterr().out
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in page.splitlines() if line.startswith("|")}
    assert {"float32", "float64", "L1", "L2", "L3", "memory"} <= set(rows)
    assert all(float(rate) > 0 for name in ("L1", "L3", "memory") for rate in rows[name][1:])
    kept = tm.Machine.load(tmp_path / "machine.json")
    assert [(level.name, level.bytes, level.shared) for level in kept.levels] == [
        (level.name, level.bytes, level.shared) for level in small
    ]
    assert kept.core_flops / 1e9 == pytest.approx(float(rows["float32"][0]), abs=0.51)
    assert all(min(level.read, level.copy, level.core_read, level.core_copy) > 0 for level in kept.levels)
    assert min(kept.core_flops64, kept.host_bandwidth) > 0


def test_what_is_touched_fits_in_the_level_that_is_measured_and_not_in_the_one_before() -> None:
    levels = (tm.MemoryLevel("L1", 2**15), tm.MemoryLevel("L2", 2**20), tm.MemoryLevel("L3", 2**25, shared=True))
    for threads in (1, 4):
        found = machine.places(levels, threads)
        held = [2**15 * threads, 2**20 * threads, 2**25]
        for place, most, before in zip(found, held, [0, *held], strict=False):
            assert before < sum(place.moves[0][:2]) * place.moves[0][2] <= most
            assert before < sum(place.moves[1][:2]) * place.moves[1][2] <= most
        assert 2 * found[-1].moves[1][2] > 3 * held[-1]


def test_the_cost_of_compiling_is_printed_as_a_table() -> None:
    command = [*START, "compile", "--rounds", "1", "--stages", "3", "6"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("|")]
    assert rows[0] == "program"
    assert rows[2:] == ["blur", "3 stages", "6 stages"]


def test_the_time_of_proofs_is_printed_as_tables() -> None:
    command = [*START, "checks", "--only", "gpu/sums", "--programs", "2", "--commands", "40"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("|")]
    assert {"gpu/sums.atomic", "gpu/sums.tree"} <= {*rows}
    assert sum(row.startswith("whole 14") for row in rows) == 2
    assert rows[-6:] == ["on cores", "on cores", "on gpu", "on gpu", "on ranks", "on ranks"]
    assert "% of the rest of lowering" in printed


def test_the_cost_of_a_call_is_printed_as_a_table() -> None:
    printed = subprocess.run([*START, "calls", "--rounds", "1"], check=True, capture_output=True, text=True).stdout
    rows = [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("|")]
    assert rows[0] == "kernel" and rows[2:] == ["x + y", "s (x + y)", "rows"]


def test_calls_keep_no_memory_and_functions_little() -> None:
    """Of a function, what islpy keeps stays: some 70 KB (docs/results/leaks.md)."""
    command = [*START, "leaks", "--kernels", "12", "--calls", "100000"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]
    rows = {what: (float(each.replace(",", "")), int(more.replace(",", ""))) for what, _, _, each, more in cells[2:]}
    assert len(rows) == 8
    for what in ("calls with arguments", "calls that make their output", "bound calls"):
        assert rows[what][0] < 40, what  # an object is 56 bytes, an array 112
    assert rows["functions proven and emitted"][0] < 250_000
    assert rows["kernels compiled, called, dropped"][0] < 500_000  # a library and its pages come and go
    assert max(more for _, more in rows.values()) < 1000  # but for the kinds of calls that a kernel remembers


def test_threads_and_memory_on_nodes_are_measured_or_say_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa, "SECONDS", 0.0)
    found = dict(numa.rows(small=True))
    assert list(found) == ["matching", "mismatched", "left alone"]
    assert found["matching"] > 0 and found["left alone"] > 0
    farther = found["mismatched"]
    assert farther > 0 if isinstance(farther, float) else "one memory node" in farther
    assert [row[0] for row in numa.lines(list(found.items()))] == list(found)


@pytest.fixture
def stories() -> Iterator[None]:
    """Stories on cores that are imported are forgotten afterwards."""
    with modules_of(EXAMPLES / "cpu"):
        yield


def test_the_stories_on_cores_are_compared_measured_and_drawn(
    stories: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    cpu.main(["--save", "--sizes", "70x320", "--only", "grey", "--seconds", "0", "--rounds", "1", "--arrays", "64"])
    page = (tmp_path / "cpu.md").read_text()
    assert page in capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")] for line in page.splitlines() if line.startswith("| grey")]
    assert {row[3] for row in rows if row[2] == "320 x 70"} == {"1", "2"}
    for picture in ("cpu_peers", "cpu_limits"):
        ET.parse(tmp_path / "pictures" / f"{picture}.svg")
    for name, package in worker.PACKAGES.items():
        assert (f"installed here: {name}" in page or f", {name}" in page) or importlib.util.find_spec(package)


def test_a_program_that_computes_something_else_is_not_measured() -> None:
    right = np.arange(12, dtype=np.float32).reshape(3, 4)
    wrong = right.copy()
    wrong[1, 2] += 1
    assert not cpu.differs(right, right, (0.0, 0.0))
    assert cpu.differs(wrong, right, (0.5, 0.0)) == "1 of 12 points, by up to 1"
    assert not cpu.differs(wrong, right, (1.0, 0.0))
    assert not cpu.differs(wrong, right, (0.5, 0.1))
    assert cpu.differs(np.full_like(right, np.nan), right, (0.5, 0.5))


@pytest.fixture
def known() -> Iterator[dict[str, programs.App]]:
    """The apps by name; those that are imported are forgotten afterwards."""
    with modules_of(EXAMPLES / "apps"):
        yield programs.all_apps()


def test_an_app_is_compared_with_numpy_measured_and_costed(
    known: dict[str, programs.App], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    asked = ["--save", "--size", "37x41", "--only", "harris", "--seconds", "0", "--rounds", "1"]
    apps.main([*asked, "--arrays", "64"])
    page = (tmp_path / "apps.md").read_text()
    assert page in capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")] for line in page.splitlines() if line.startswith("| harris")]
    times, costs = rows[:2], rows[2]
    assert [row[2:4] for row in times] == [["41 x 37", "1"], ["41 x 37", "2"]]
    absent = programs.missing()
    for peer, column in (("Halide", 5), ("OpenCV", 7)):
        assert all(bool(row[column]) == (peer not in absent) for row in times)
    algorithm, schedule, *_, size = map(float, costs[2:-1])
    assert 0 < schedule <= 25 and 0 < algorithm <= 60 and size > 0


def test_automatic_schedules_are_compared_with_those_by_hand_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    asked = [
        "--save",
        "--only",
        "negative",
        "--threads",
        "1",
        "--seconds",
        "0",
        "--rounds",
        "1",
        "--size",
        "20x30",
        "--arrays",
        "64",
    ]
    auto.main([*asked, "--keep", str(tmp_path / "kept")])
    page = (tmp_path / "auto.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    assert rows[2][:2] == ["negative", "30 x 20"] and rows[3][0] == "geometric mean"
    unscheduled, found, hand = map(float, rows[2][2:5])
    assert float(rows[3][5]) == pytest.approx(hand / found, abs=0.06, rel=0.06)
    assert float(rows[3][6]) == pytest.approx(unscheduled / found, abs=0.06, rel=0.06)
    auto.main([*asked, "--keep", str(tmp_path / "kept")])  # what is kept is not measured again
    assert (tmp_path / "auto.md").read_text() == page
    assert "threads: 1 ..." in capsys.readouterr().err


def test_reductions_are_compared_measured_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(reduction_peers, "PEERS", {reduction_peers.NUMPY: reduction_peers.by_numpy})
    reductions.main(
        [
            "--save",
            "--only",
            "12: all;sum of all, 64",
            "--cut",
            "40",
            "--seconds",
            "0",
            "--rounds",
            "1",
            "--arrays",
            "64",
        ]
    )
    page = (tmp_path / "reductions.md").read_text()
    assert page in capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    assert [row[0] for row in rows].count("12: all, 1, 1280") == 2  # with one thread, and with two
    ours, numpy = map(float, next(row for row in rows if row[0] == "12: all, 1, 1280")[1:3])
    assert 0 < ours < numpy  # a call from C, and several from Python
    assert rows[-1][:2] == ["sum of all, 64 MB", "2"] and float(rows[-1][4]) > 0


def test_wrong_sums_are_not_measured() -> None:
    workload = reduction_workloads.workloads()["sum of rows, 64 MB"].cut(5)
    given = workload.program.sample()
    right = workload.program.exact(given)
    assert not workload.differs(workload.program.by_numpy(given), right)
    wrong = [right[0].copy()]
    wrong[0][2] += 1
    assert workload.differs(wrong, right).startswith("1 of 5 values")
    assert workload.differs([np.full(5, np.nan)], right).startswith("5 of 5")


def test_values_apart_from_the_reference_are_not_measured(known: dict[str, programs.App]) -> None:
    program = auto_programs.all_programs()["harris"]
    right = np.zeros((3, 4), np.float32)
    assert not program.differs(right, right)
    assert program.differs(right + 1, right).startswith("12 of 12 values")
    assert "shape" in program.differs(right[1:], right)


def test_each_program_beside_an_app_belongs_to_one(known: dict[str, programs.App]) -> None:
    assert {file.stem for file in (BENCHMARKS / "apps" / "halide").glob("[!_]*.py")} <= set(known)
    assert set(opencv.PROGRAMS) <= set(known)


def test_a_result_beyond_the_tolerance_of_an_app_is_not_measured(known: dict[str, programs.App]) -> None:
    app = known["harris"]
    exact = np.zeros((3, 4))
    found = exact.astype(np.float32)
    assert not app.differs(found, exact, "tiramisu_py")
    found[1, 2] = 2 * app.story.CLOSE
    assert app.differs(found, exact, "tiramisu_py").startswith("1 of 12 values")
    assert "shape" in app.differs(found[1:], exact, "tiramisu_py")
    assert app.differs(np.full_like(found, np.nan), exact, "tiramisu_py").startswith("12 of 12")


def test_lines_of_an_app_are_those_of_code_that_it_uses(known: dict[str, programs.App], tmp_path: Path) -> None:
    text = '''"""An app."""
import numpy as np
N = 1
SCALE = 2

def shared():
    """Both use it."""
    return N

def algorithm():
    """Two
    lines."""
    # a comment

    return shared()

def scheduled():
    sample = algorithm() + shared() * SCALE
    return sample

def sample():
    return np.zeros(3)
'''
    (tmp_path / "counted.py").write_text(text)
    with modules_of(tmp_path) as load:
        assert cost.lines(load("counted")) == (5, 4)


AVX2 = "x86-64-v3" in tm.target().features


@pytest.fixture
def environment() -> Iterator[None]:
    """What a benchmark sets in the environment is forgotten afterwards."""
    kept = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(kept)


@pytest.mark.skipif(not AVX2, reason="this processor is less than x86-64-v3")
def test_all_programs_are_measured_on_a_part_of_this_processor(
    environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ours has no vectors of 64 bytes then, and the libraries say that they have none."""
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    asked = ["--save", "--only", "12: all", "--cut", "8", "--seconds", "0", "--rounds", "1", "--threads", "1"]
    monkeypatch.setattr(reduction_peers, "PEERS", {reduction_peers.NUMPY: reduction_peers.by_numpy})
    reductions.main([*asked, "--processor=x86-64-v3", "--arrays", "16,4096"])
    page = (tmp_path / "reductions-x86-64-v3.md").read_text()
    assert "--processor=x86-64-v3" in page and "aligned to 16, 4096 bytes" in page and "| 12: all" in page
    assert tm.target().vector_bytes == 32
    answers = one_processor.said("x86-64-v3")
    assert "AVX2" in answers["NumPy"] and "AVX512" not in answers["NumPy"]
    assert answers.get("OpenBLAS", "Haswell") == "Haswell" and answers.get("numba", "ymm registers") == "ymm registers"


def test_a_library_that_uses_more_than_the_processor_ends_the_benchmark(
    environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(one_processor.VARIABLE, "x86-64-v3")
    answers = {"OpenBLAS": "Haswell", "MKL": "Intel(R) Advanced Vector Extensions 2 (Intel(R) AVX2)"}
    monkeypatch.setattr(one_processor, "said", lambda _: answers)
    assert "MKL: Intel(R) Advanced Vector Extensions 2" in one_processor.conditions()
    for wider in ("Intel AVX-512 with Intel DL Boost", "SkylakeX", "avx512_skylake", "zmm registers"):
        answers["other"] = wider
        with pytest.raises(SystemExit, match=r"x86-64-v3: these use other instructions here: other"):
            one_processor.conditions()


def test_the_slower_arrays_of_a_program_count() -> None:
    """That are those with which its fastest turn is slower, whatever single turns were."""

    class Told:
        def __init__(self, name: str, times: list[list[float]]) -> None:
            self.name, self.about, self.times = name, "", iter(times)

        def turn(self) -> list[float]:
            return next(self.times)

    told = [Told("a", [[3.0, 9.0], [2.0, 1.0]]), Told("b", [[4.0, 5.0], [6.0, 7.0]])]
    assert rounds.turns(told, 0, 2) == [{"a": 3.0, "b": 5.0}, {"a": 2.0, "b": 7.0}]  # type: ignore[arg-type]


def test_a_program_is_made_with_arrays_of_each_alignment_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are there at the same time, and a call keeps those of which it has only the places."""
    monkeypatch.setenv(one_processor.ARRAYS, "16,4096")

    def made() -> tuple[np.ndarray[Any, Any], rounds.Run]:
        array = shared_arrays.own(np.zeros(8))
        place = array.ctypes.data
        return weakref.proxy(array), rounds.holding(lambda: place, array)

    found = rounds.each_alignment(made)
    assert one_processor.alignments() == (16, 4096)
    assert [array.ctypes.data == run() for array, run in found] == [True, True]
    assert [run() % 4096 == 0 for _, run in found] == [False, True]  # type: ignore[operator]


def test_the_fastest_forms_of_a_peer_are_kept_for_its_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that take longer than one and a half times the best one after a third of the calls have no more of them."""
    seconds = {"slow": 0.0014, "hopeless": 0.0016, "fast": 0.001, "middle": 0.0011, "slower": 0.0015}
    called = list[tuple[str, int]]()

    def least(run: Any, calls: int) -> float:
        called.append((run(), calls))
        return seconds[run()]

    monkeypatch.setattr(worker, "least", least)
    found = worker.fastest({name: lambda name=name: lambda: name for name in seconds}, 3)  # type: ignore[misc]
    assert list(found) == ["fast", "middle", "slow"]
    assert called == [*((name, 1) for name in seconds), *((name, 2) for name in seconds if name != "hopeless")]


def test_a_form_far_behind_the_best_one_has_no_more_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each alignment of arrays by itself; the times of the first turn are told as they were."""
    taken = list[str]()

    def timed(run: Any) -> float:
        taken.append(run())
        return {"a": 1.0, "b": 1.4, "c": 1.6, "d": 2.0, "e": 3.1}[run()]

    def form(name: str) -> Any:
        return lambda: name

    answers = io.StringIO()
    monkeypatch.setattr(rounds, "_timed", timed)
    monkeypatch.setattr("sys.stdin", io.StringIO("turn\nturn\n"))
    rounds.serve([[form("c"), form("a"), form("b")], [form("e"), form("d")]], 1, "", answers)  # type: ignore[arg-type]
    assert answers.getvalue().split() == ["1.0", "2.0"] * 2
    assert "".join(taken[-8:]) == "cabedabd"


@pytest.mark.parametrize("alignment", one_processor.ALIGNMENTS)
def test_arrays_are_aligned_as_asked_and_no_better(alignment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(one_processor.ARRAYS, str(alignment))
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    copies = [shared_arrays.own(values, number) for number in range(3)]
    assert all(np.array_equal(copy, values) and copy.ctypes.data % alignment == 0 for copy in copies)
    assert alignment > 16 or all(copy.ctypes.data % 32 for copy in copies)


def test_means_are_of_the_apps_that_halide_has(known: dict[str, programs.App]) -> None:
    app = known["harris"]

    def measured(ours: float, **peers: float) -> object:
        return apps.Measured(app, (1, 1), 1, [{"tiramisu_py": ours, **peers}])

    found = [measured(1.0, Halide=2.0), measured(1.0, Halide=8.0), measured(1.0, OpenCV=100.0)]
    assert apps.means(found) == "Threads: 1. Geometric mean over 2 apps: 4.00 (4.00)."
    assert apps.means(found[2:]) == "Nothing was measured beside Halide."


BLOCK_PROGRAMS = {
    "product": lambda: blocks_workloads.product(33), "softmax": lambda: blocks_workloads.softmax(3, 50, once=True),
    "layer norm": lambda: blocks_workloads.layer_norm(3, 50),
    "attention": lambda: blocks_workloads.attention(130, causal=False),
    "sparse attention": lambda: blocks_workloads.sparse_attention(512),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCK_PROGRAMS)
def test_block_programs_that_are_measured_are_right(name: str) -> None:
    workload = BLOCK_PROGRAMS[name]()
    given = workload.given()
    for made in workload.made.values():
        f = made()
        assert f.check().ok
        inputs = [each for each, declared in f.algorithm.inputs.items() if not declared.scalar]
        run, found = blocks_worker.ours(inputs, f.compile(fast=("contract",)), given, workload.scalars)
        run()
        np.testing.assert_allclose(found, workload.wanted(given), rtol=2e-3, atol=2e-3)


def test_block_programs_are_compared_with_their_goals() -> None:
    sparse, whole = blocks_workloads.sparse_attention(2048), blocks_workloads.attention(2048, causal=False)
    ours = blocks_workloads.OURS
    found = [
        blocks.Measured(whole, 1, {ours: 8e-3, blocks_workloads.TORCH: 4e-3}),
        blocks.Measured(sparse, 1, {ours: 2e-3}), blocks.Measured(sparse, 2, {ours: 1e-3}),
    ]  # fmt: skip
    told = [line[4:] for line in blocks.rows(found)]
    assert told == [
        ["PyTorch", "4", "0.50", "0.80", "no"], ["all blocks", "8", "4.00", "3.00", "yes"],
        ["all blocks", "", "not measured", "3.00", ""],
    ]  # fmt: skip
