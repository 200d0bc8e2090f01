"""The command line, in this process: what it prints, and its exit codes; and once as users start it."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm
from tiramisu_py import progress
from tiramisu_py.console import doctor, main
from tiramisu_py.toolchain import processor_for

SCRIPT = """
import tiramisu_py as tm

(N,) = tm.params("N")
i, i0, i1 = tm.iters("i i0 i1")
f = tm.Function("twice", params=[N], assume="N >= 1")
a = f.input("a", tm.float32, [N])
b = f.computation("b", {i: N}, 2 * a[i])
f.outputs(b)
b.split(i, 8, i0, i1)
b.vectorize(i1, 8)
print("what the script prints is no part of the answer")

if __name__ == "__main__":
    raise AssertionError("the command line does not run this")
"""

REFUSED = """
import tiramisu_py as tm

N, = tm.params("N")
i, = tm.iters("i")
f = tm.Function("prefix", params=[N], assume="N >= 2")
a = f.input("a", tm.float64, [N])
b = f.computation("b", {i: N}, lambda b: tm.select(i >= 1, b[i - 1], 0.0) + a[i])
f.outputs(b)
b.parallelize(i)
"""

MAKERS = """
from __future__ import annotations
import tiramisu_py as tm

N, = tm.params("N")
i, = tm.iters("i")

def made(name: str) -> tm.Function:
    f = tm.Function(name, params=[N])
    a = f.input("a", tm.int32, [N])
    f.outputs(f.computation("b", {i: N}, a[i] + 1))
    return f

def first(threads: int = 1) -> tm.Function:
    return made("first")

def second() -> tm.Function:
    return made("second")

def pair():
    return made("third"), 3
"""

ALIKE = """
plain = made("g")
also_plain = plain
tiled = made("g")
"""

KERNELS = """
from __future__ import annotations
from typing import Any
import tiramisu_py as tm
import tiramisu_py.language as tl

M, = tm.params("M")

@tm.jit
def doubled(X, Y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    y = 2 * tl.load(X[i], mask=i < X.shape[0], other=0)
    tl.store(Y[i], y, mask=i < Y.shape[0])
"""

LAUNCHED = """
def launched(more: int = 0) -> tuple[tm.Function, Any]:
    f = tm.Function("twice", params=[M])
    x, y = f.input("x", tm.float32, [M]), f.array("y", tm.float32, [M + more])
    run = doubled[tl.cdiv(M, 8)](x, y, B=8)
    f.outputs(y)
    tm.recipes.blocks(run, on=tm.cores())
    return f, run

def too_few() -> tuple[tm.Function, Any]:
    return launched(8)
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code of a command, and what it printed on both streams."""
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def written(folder: Path, text: str, name: str = "script.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def unshown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRAMISU_PROGRESS", "0")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return written(tmp_path, SCRIPT)


def test_check_proves_a_script(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", script)
    assert code == 0
    assert out.startswith("twice: proven")
    assert "what the script prints" in err
    assert "what the script prints" not in out


def test_check_refuses_with_the_witness_as_text_and_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = written(tmp_path, REFUSED)
    code, out, _ = run(capsys, "check", script)
    assert code == 1
    assert "prefix: refused" in out
    assert "N = 2" in out
    code, out, _ = run(capsys, "check", script, "--json")
    (report,) = json.loads(out)
    assert code == 1
    assert (report["name"], report["ok"]) == ("prefix", False)
    assert report["violations"]


def test_show_prints_loops_history_and_commands(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "vector(8)" in run(capsys, "show", script)[1]
    _, out, _ = run(capsys, "show", script, "--explain", "b")
    assert out.index("b, as declared") < out.index("b.split(i, 8, i0, i1)") < out.index("for i1, vector of 8:")
    assert run(capsys, "show", script, "--commands")[1] == "b.split(i, 8, i0, i1)\nb.vectorize(i1, 8)\n"
    code, _, err = run(capsys, "show", script, "--explain", "c")
    assert code == 2
    assert "no computation 'c' to explain: twice has b" in err


def test_a_computation_is_explained_in_the_functions_that_have_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = written(tmp_path, SCRIPT + REFUSED.replace("f =", "g =").replace("f.", "g.").replace('"b"', '"c"'))
    code, out, _ = run(capsys, "show", script, "--explain", "c")
    assert code == 0
    assert "c, as declared" in out
    assert "b, as declared" not in out


def test_show_draws_a_picture(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", script, "-o", tmp_path / "twice.html", "N=20")
    assert code == 0
    assert out.strip() == str(tmp_path / "twice.html")
    assert (tmp_path / "twice.html").read_text().startswith("<!DOCTYPE html>")
    assert run(capsys, "show", script, "-o", tmp_path / "none" / "x.html")[0] == 2


PLAIN = SCRIPT.split("b.split", maxsplit=1)[0]


def test_show_sets_two_schedules_beside_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, other = written(tmp_path, SCRIPT), written(tmp_path, PLAIN, "plain.py")
    code, out, _ = run(capsys, "show", script, "--beside", other)
    assert code == 0
    left, right = zip(*(line.split("|") for line in out.splitlines() if "|" in line), strict=True)
    assert any("vector(8)" in line for line in left) and not any("vector(8)" in line for line in right)
    assert any("for i in 0 .. N" in line for line in right)
    assert len(json.loads(run(capsys, "show", script, "--beside", other, "--json")[1])) == 2
    code, out, _ = run(capsys, "show", script, "--beside", other, "-o", tmp_path / "both.html", "N=20")
    assert code == 0
    alone = run(capsys, "show", script, "-o", tmp_path / "one.html", "N=20")
    assert alone[0] == 0
    assert len((tmp_path / "both.html").read_text()) > len((tmp_path / "one.html").read_text()) + 1000
    assert run(capsys, "show", script, "--beside", "g")[0] == 2


def test_long_work_is_shown_on_standard_error_unless_it_is_to_be_quiet(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_EACH", 0.001)
    monkeypatch.delenv(progress.VARIABLE)
    code, out, err = run(capsys, "check", script)
    assert code == 0
    assert "twice: proof took" in err
    assert "took" not in out
    code, _, err = run(capsys, "check", script, "--quiet")
    assert code == 0
    assert "proof" not in err


def test_emit_prints_or_writes_the_text(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "emit", script, "--target", "x86-64-v3")
    assert out.startswith("/* for x86-64-v3, with vectors of 32 bytes */")
    assert "/* ---- twice.c ---- */" in out
    code, out, _ = run(capsys, "emit", script, "-o", tmp_path / "made")
    assert code == 0
    assert str(tmp_path / "made" / "twice.c") in out.splitlines()
    assert out.splitlines()[-1] == f"for {tm.target().name}, with vectors of {tm.target().vector_bytes} bytes"
    assert "int twice(" in (tmp_path / "made" / "twice.h").read_text()


def test_build_writes_a_library(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "build", script, "-o", tmp_path / "made", "--json")
    assert code == 0
    assert str(tmp_path / "made" / "libtwice.so") in json.loads(out)["files"]


def test_bench_times_calls(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "bench", script, "N=100", "--seconds", "0.001", "--json")
    found: dict[str, Any] = json.loads(out)
    assert code == 0
    assert found["bytes"] == 800
    assert found["operations"] == 100
    assert 0 < found["minimum"] <= found["median"]


def test_cost_is_counted_beside_a_machine(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cost", script, "N=1000")
    assert code == 0
    assert "1,000 operations, 0.125 for each byte" in out
    levels = (tm.MemoryLevel("L1", 4096, read=2e11),)
    machine = tm.Machine(1e9, 1, 1e10, levels=levels).save(tmp_path / "machine.json")
    options = ["--machine", machine, "--roofline", tmp_path / "cost.svg"]
    found = json.loads(run(capsys, "cost", script, "N=1000", *options, "--json")[1])
    assert [(level["name"], level["bytes"]) for level in found["levels"]] == [("L1", 8000), ("memory", 8000)]
    assert (tmp_path / "cost.svg").read_text().startswith("<svg")
    assert "from memory: 8,000 bytes, 0.0008 ms at 10 GB/s" in run(capsys, "cost", script, "N=1000", *options)[1]
    code, _, err = run(capsys, "cost", script)
    assert (code, "twice needs sizes: add N=1000" in err) == (2, True)
    assert run(capsys, "cost", script, "N=1000", "--machine", tmp_path / "none.json")[0] == 1
    assert run(capsys, "cost", script, "N=1000", "--roofline", tmp_path / "none" / "x.svg")[0] == 2


def test_cost_has_the_facts_of_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on_gpu = SCRIPT.replace("b.vectorize(i1, 8)", "b.tag_gpu([i0], [i1])\nf.derive_transfers()").replace(
        "8, i0", "64, i0"
    )
    code, out, _ = run(capsys, "cost", written(tmp_path, on_gpu), "N=1000", "--gpu", "H200")
    assert code == 0
    assert "64 threads a block (64 x 1 x 1)" in out
    assert "occupancy of H200: 100% (32 blocks, 64 warps" in out
    assert "sectors a warp" in out
    assert "global memory of GPUs: 4,000 bytes loaded, 4,000 stored" in out


def test_bench_draws_a_roofline(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = tm.Machine(1e9, 1, 1e10).save(tmp_path / "machine.json")
    options = ["--machine", machine, "--roofline", tmp_path / "twice.svg", "--seconds", "0.001"]
    code, out, _ = run(capsys, "bench", script, "N=100", *options)
    assert code == 0
    assert "10 GB/s" in out
    assert "measured" in (tmp_path / "twice.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench", "{script}"], "twice needs sizes: add N=1000"),
        (["bench", "{script}", "M=3"], "'M=3' is no size of twice: give N=1000"),
        (["bench", "{script}", "N=-3"], "'N=-3' is no size of twice"),
        (["check", "{folder}/none.py"], "there is no file"),
        (["bench", "{script}", "N=100000000000000"], "the arrays of twice are too large for this machine at N=1000"),
        (["show", "{script}", "N=3"], "N=3: sizes are for a picture: add -o FILE.html"),
        (["check", "{script}", "--function", "g"], "has no 'g'; it has f"),
        (["check", "{script}", "--function", "N"], "N of {script} is"),
        (["build", "{makers}", "-o", "x"], "has 2 functions: choose one with --function first, second"),
        (["build", "{alike}", "-o", "x"], "has 2 functions: choose one with --function plain, tiled"),
        (["show", "{alike}", "--function", "g"], "has 2 functions g: choose one of plain, tiled"),
        (["check", "{makers}", "--function", "made"], "cannot be called without arguments"),
        (["check", "{empty}"], "has no scheduled function"),
        (["check", "{ended}"], "ended itself (exit 3)"),
        (["check", "{bad}"], "is no Python script"),
    ],
)
def test_wrong_use_says_what_to_do(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {
        "script": written(tmp_path, SCRIPT), "makers": written(tmp_path, MAKERS, "makers.py"),
        "alike": written(tmp_path, MAKERS + ALIKE, "alike.py"),
        "empty": written(tmp_path, "x = 1", "empty.py"), "bad": written(tmp_path, "x = (", "bad.py"),
        "ended": written(tmp_path, "raise SystemExit(3)", "ended.py"), "folder": tmp_path,
    }  # fmt: skip
    code, _, err = run(capsys, *[argument.format(**names) for argument in arguments])
    assert code == 2
    assert words.format(**names) in err


def test_functions_that_return_one_are_called(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = written(tmp_path, MAKERS)
    out = run(capsys, "check", script)[1]
    assert "first: proven" in out
    assert "second: proven" in out
    assert "third" not in out
    assert "third: proven" in run(capsys, "check", script, "--function", "pair")[1]


@pytest.fixture
def namesakes(tmp_path: Path) -> Path:
    """Three functions ``g``, of which one has two names."""
    return written(tmp_path, MAKERS + ALIKE + "other = made('g')\ntiled['b'].parallelize(i)\n")


def test_functions_of_one_name_are_told_apart(namesakes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "show", namesakes, "--json")[1])
    assert list(found) == ["plain", "tiled", "other"]
    assert ["parallel" in text for text in found.values()] == [False, True, False]
    for command in ("show", "check"):
        out = run(capsys, command, namesakes)[1]
        assert [line for line in out.splitlines() if "----" in line] == [f"---- {name} ----" for name in found]
    assert [each["function"] for each in json.loads(run(capsys, "check", namesakes, "--json")[1])] == list(found)


def test_texts_of_functions_of_one_name_are_in_folders(
    namesakes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys, "emit", namesakes)[1]
    assert [out.count(f"/* ---- {name}/g.c ---- */") for name in ("plain", "tiled", "other")] == [1, 1, 1]
    code, out, _ = run(capsys, "emit", namesakes, "-o", tmp_path / "made")
    assert code == 0
    assert {str(path) for path in (tmp_path / "made").rglob("*.*")} == set(out.splitlines()[:-1])
    texts = [(tmp_path / "made" / name / "g.c").read_text() for name in ("plain", "tiled", "other")]
    assert ["omp parallel" in text for text in texts] == [False, True, False]


def test_an_error_of_the_script_is_shown_from_its_own_line_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "check", written(tmp_path, "def f():\n    return 1 / 0\n\nf()\n"))
    assert code == 2
    assert "line 4, in <module>" in err
    assert "invocation.py" not in err
    code, out, err = run(capsys, "check", tmp_path / "script.py", "--json")
    assert code == 2
    assert json.loads(out) == {"error": "ZeroDivisionError", "message": "division by zero"}
    assert "line 4, in <module>" in err


def test_an_error_of_a_declaration_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", written(tmp_path, 'import tiramisu_py as tm\ntm.Function("int")\n'))
    assert code == 1
    assert "Traceback" not in err
    assert "int" in err
    code, out, _ = run(capsys, "check", tmp_path / "script.py", "--json")
    assert json.loads(out)["error"] == "DeclarationError"


def test_doctor_finds_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert {line.split()[0] for line in out.splitlines()} >= {"Python", "cache", "processor", "MPI", "GPU"}


def test_doctor_names_only_variables_that_were_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in doctor.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AR", "ar")
    found = {each["what"]: each for each in json.loads(run(capsys, "doctor", "--json")[1])}
    assert found["environment"]["found"] == "AR=ar"


def test_doctor_names_the_cache_that_is_only_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site").mkdir(mode=0o755)
    monkeypatch.setenv("TIRAMISU_CACHE_BASE", str(tmp_path / "site"))
    found = {each["what"]: each for each in json.loads(run(capsys, "doctor", "--json")[1])}
    assert found["cache"]["found"].endswith(f"upon {tmp_path / 'site'}, which is only read")


def test_doctor_says_what_stands_for_the_processor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = next((name for name in ("x86-64", "armv8-a") if not _obstacle(name)), None)
    if name is None:
        pytest.skip("a processor of another kind")
    monkeypatch.setenv("TIRAMISU_PROCESSOR", name)
    lines = {line.split()[0]: line for line in run(capsys, "doctor")[1].splitlines()}
    assert f"TIRAMISU_PROCESSOR={name}" in lines["environment"]
    assert f"{name}, vectors of 16 bytes" in lines["processor"]


def _obstacle(name: str) -> str:
    try:
        return processor_for(name).obstacle
    except tm.ToolchainError as error:
        return str(error)


def test_doctor_says_how_to_get_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", "no-such-compiler")
    code, out, _ = run(capsys, "doctor")
    assert code == 1
    assert "MISSING: CC=no-such-compiler is not a usable C compiler" in out
    assert "apt-get install gcc" in out
    found = {each["what"]: each for each in json.loads(run(capsys, "doctor", "--json")[1])}
    assert found["C compiler"]["missing"]


def test_doctor_warns_of_a_launcher_of_another_mpi(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = doctor.find_mpi(doctor.open_cache()).family
    other = "MPICH" if here == "Open MPI" else "Open MPI"
    banner = {"MPICH": "HYDRA build details:", "Open MPI": "mpirun (Open MPI) 4.1.4"}
    for family in (here, other):
        launcher = tmp_path / family.replace(" ", "") / "mpirun"
        launcher.parent.mkdir()
        launcher.write_text(f"#!/bin/sh\necho '{banner[family]}'\n")
        launcher.chmod(0o755)
        with monkeypatch.context() as changed:
            changed.setenv("PATH", f"{launcher.parent}:{os.environ['PATH']}")
            found = {each["what"]: each for each in json.loads(run(capsys, "doctor", "--json")[1])}
        warned = found["MPI"]["warning"]
        assert bool(warned) == (family == other)
        if warned:
            assert f"{launcher} is of {other}, and programs are linked with {here}" in warned


def test_block_programs_are_shown_counted_printed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the examples have them: a function that returns the scheduled one, and the run of its kernel."""
    script = written(tmp_path, KERNELS + LAUNCHED)
    code, out, _ = run(capsys, "check", script)
    assert code == 1 and "---- launched ----\ntwice: proven" in out
    assert "no program stores y[" in out.split("---- too_few ----")[1]
    one = (script, "-f", "launched")
    assert "parallel(static)" in run(capsys, "show", *one)[1]
    _, out, _ = run(capsys, "show", *one, "--explain", "y_2")
    assert out.index("y_2, as declared") < out.index("y_2.compute_at(y, p0)")
    assert "y.parallelize(p0)\n" in run(capsys, "show", *one, "--commands")[1]
    assert run(capsys, "show", *one, "-o", tmp_path / "twice.html")[0] == 0
    assert "the caller's" in run(capsys, "cost", *one, "M=100")[1]
    assert "#pragma omp parallel for" in run(capsys, "emit", *one)[1]


def test_a_kernel_alone_is_no_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = written(tmp_path, KERNELS)
    code, _, err = run(capsys, "check", script)
    assert code == 2 and "-> tm.Function; launch doubled in it: doubled[grid](...), on its handles" in err
    code, _, err = run(capsys, "check", script, "-f", "doubled")
    assert code == 2 and "is a kernel: name a function that launches it, doubled[grid](...)" in err


def test_a_saved_function_is_a_script_too(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(script))["f"].save(tmp_path / "twice.json")
    assert "twice: proven" in run(capsys, "check", tmp_path / "twice.json")[1]


def test_it_runs_as_a_module_and_ends_with_the_code(script: Path) -> None:
    command = [sys.executable, "-m", "tiramisu_py", "check", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("twice: proven")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is one of Linux")
def test_an_answer_that_cannot_be_written_is_one_message(script: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tiramisu_py", "show", str(script)]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "the answer cannot be written: [Errno 28]" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr
