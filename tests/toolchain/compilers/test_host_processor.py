"""The processor that stands for this machine's: what is chosen for it, what it runs, and who hears of it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests import processors
from tiramisu_py.queries import machine_description
from tiramisu_py.toolchain import open_cache, processor_for
from tiramisu_py.toolchain.compilers.processor import VARIABLE

N = tm.params("N")[0]
i = tm.iters("i")[0]
FEATURES = set(tm.target().features)
v3 = pytest.mark.skipif("x86-64-v3" not in FEATURES, reason="no x86-64-v3 here")
LACKS = "this machine lacks AVX, AVX2, .*TIRAMISU_PROCESSOR=x86-64-v2 stands for its processor"


@pytest.fixture
def v2(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with vectors of 16 bytes."""
    monkeypatch.setenv(VARIABLE, "x86-64-v2")


def doubled(lanes: int = 8) -> tm.Function:
    f = tm.Function("doubled", params=[N])
    y = f.computation("y", {i: N}, 2 * f.input("x", tm.float32, [N])[i])
    f.outputs(y)
    y.vectorize(i, lanes)
    return f


@v3
def test_everything_is_chosen_for_the_processor_of_the_variable(v2: None) -> None:
    assert (processor_for().name, processor_for().vector_bytes, processor_for().is_local) == ("x86-64-v2", 16, False)
    assert processor_for("native") == processor_for()
    cpu = tm.target()
    assert (cpu.name, cpu.vector_bytes, cpu.vector_registers) == ("x86-64-v2", 16, 16) and "avx" not in cpu.features
    assert tm.recipes.Cpu.here() == tm.recipes.Cpu.here(target="x86-64-v2")
    kernel = doubled().compile()
    assert "-march=x86-64-v2" in kernel.recipe.flags and "float32x4" in kernel.source["doubled.c"]
    assert "for x86-64-v2" in repr(kernel) and kernel.version == "x86-64-v2"
    chosen = doubled(2)
    own, named = tm.Function("own", params=[N]), tm.Function("own", params=[N])
    for f in (own, named):
        f.outputs(f.computation("y", {i: N}, 2 * f.input("x", tm.float32, [N])[i]))
    schedule = own.auto_schedule(threads=1)
    assert str(schedule) == str(named.auto_schedule(target="x86-64-v2", threads=1))
    assert schedule.explain().startswith("for x86-64-v2, this machine's processor: vectors of 16 bytes, 16 registers")
    assert chosen.source("x86-64-v3") != chosen.source("x86-64-v2") or chosen.source() == chosen.source("x86-64-v3")


@v3
def test_a_kernel_with_more_instructions_says_so_however_it_is_run(v2: None) -> None:
    """Nothing of it is loaded into the process, so that nothing of it can run."""
    kernel, x = doubled().compile(target="x86-64-v3"), np.arange(5, dtype=np.float32)
    assert kernel.shared is None
    sent = pickle.loads(pickle.dumps(kernel))
    for each in (kernel, sent):
        for run in (
            lambda each: each(x), lambda each: each.bound(x), lambda each: each.bound(x=x, y=x.copy())(),
            lambda each: each.time(x, calls=1), lambda each: each.empty("x", N=3), lambda each: each.placement(),
            lambda each: each.library,
        ):  # fmt: skip
            with pytest.raises(tm.KernelError, match=f"doubled is compiled for x86-64-v3; {LACKS}"):
                run(each)
    assert np.array_equal(doubled().evaluate(x), 2 * x), "which compiles nothing"


@v3
def test_traces_and_packing_functions_of_such_a_kernel_say_so(v2: None) -> None:
    traced, x = doubled().compile(target="x86-64-v3", trace=True), np.arange(5, dtype=np.float32)
    with pytest.raises(tm.KernelError, match=LACKS):
        traced(x)
    with pytest.raises(tm.ArgumentError):
        _ = traced.trace
    R, C = tm.params("R C")
    r, c, r0, r1 = tm.iters("r c r0 r1")
    f = tm.Function("kept", params=[R, C])
    image, w = f.input("image", tm.float32, [R, C]), f.input("w", tm.float32, [C])
    sums = f.reduction("sums", {r: R}, {c: C}, tm.sum, image[r, c] * w[c])
    f.outputs(sums)
    sums.update.copy(image, [r0, r1], layout=[r1, r0]).keep()
    kernel = f.compile(target="x86-64-v3")
    for run in (
        lambda: kernel.pack("image", np.ones((3, 5), np.float32)),
        lambda: kernel(np.ones((3, 5), np.float32), x),
    ):
        with pytest.raises(tm.KernelError, match=f"kept is compiled for x86-64-v3; {LACKS}"):
            run()


@v3
def test_a_kernel_that_calls_a_users_function_says_so(v2: None) -> None:
    source = "static float twice(float x) { return 2 * x; }"
    twice = tm.extern("twice", [tm.float32], tm.float32, source=source, python=lambda x: 2 * x)
    f = tm.Function("outside", params=[N])
    f.outputs(f.computation("y", {i: N}, twice(f.input("x", tm.float32, [N])[i])))
    with pytest.raises(tm.KernelError, match=f"outside is compiled for x86-64-v3; {LACKS}"):
        f.compile(target="x86-64-v3")(np.ones(3, np.float32))


@v3
def test_tuning_for_such_a_processor_says_so(v2: None) -> None:
    x = np.ones(64, np.float32)
    found = tm.tune(doubled, {"lanes": [4, 8]}, arguments={"x": x}, target="x86-64-v3", seconds=1)
    assert (found.failed, found.measured) == (2, 0)
    assert re.search(f"2 of them since doubled is compiled for x86-64-v3; {LACKS}", str(found))


def _run_there(kernel: tm.Kernel) -> str:
    try:
        return str(kernel(np.ones(3, np.float32)).sum())
    except tm.KernelError as error:
        return str(error)


@v3
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_are_started_have_the_same_host(v2: None, method: str) -> None:
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(_run_there, [doubled().compile()]) == "6.0"
        said = pool.apply(_run_there, [doubled().compile(target="x86-64-v3")])
    assert "TIRAMISU_PROCESSOR=x86-64-v2 stands for its processor" in said


@v3
def test_a_kernel_for_this_host_travels_to_one_that_has_more(v2: None, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pickle.dumps(doubled().compile())
    monkeypatch.setenv(VARIABLE, "x86-64-v3")
    np.testing.assert_array_equal(pickle.loads(packed)(np.ones(3, np.float32)), np.full(3, 2, np.float32))
    more = pickle.dumps(doubled().compile())
    monkeypatch.setenv(VARIABLE, "x86-64-v2")
    with pytest.raises(tm.KernelError, match=LACKS):
        pickle.loads(more)(np.ones(3, np.float32))


@v3
def test_of_several_versions_the_best_for_this_host_runs(v2: None) -> None:
    kernel = tm.compile_versions(lambda cpu: doubled(cpu.lanes(tm.float32)), ["x86-64", "x86-64-v2", "x86-64-v3"])
    assert kernel.version == pickle.loads(pickle.dumps(kernel)).version == "x86-64-v2"
    np.testing.assert_array_equal(kernel(np.ones(9, np.float32)), np.full(9, 2, np.float32))
    with pytest.raises(tm.ArgumentError, match=f"doubled for x86-64-v3 cannot run here: {LACKS}"):
        kernel.using("x86-64-v3")
    alone = tm.compile_versions(lambda cpu: doubled(), ["x86-64-v3"])
    with pytest.raises(tm.KernelError, match="can run none of the versions"):
        alone(np.ones(3, np.float32))


@pytest.mark.skipif(not processors.toolchain(None).is_x86, reason="names processors of x86-64")
def test_a_name_that_cannot_stand_for_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (
        ("knl", "TIRAMISU_PROCESSOR=knl cannot stand .*: this machine lacks .*AVX512ER.*; name one .*or unset"),
        ("pentagon", "TIRAMISU_PROCESSOR=pentagon: .* does not know it"),
        ("-O3 x", "TIRAMISU_PROCESSOR=-O3 x is not the name of a processor"),
    ):
        monkeypatch.setenv(VARIABLE, name)
        for ask in (tm.target, processor_for, doubled().compile, lambda: doubled().compile(target="x86-64")):
            with pytest.raises(tm.ToolchainError, match=said):
                ask()
    monkeypatch.setenv(VARIABLE, " ")
    assert processor_for().is_local


@v3
def test_a_measurement_is_of_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = []
    for host in ("x86-64-v2", "x86-64-v3", ""):
        monkeypatch.setenv(VARIABLE, host)
        machines.append(str(machine_description(None)))
    assert len({*machines}) == 3


@v3
def test_what_is_remembered_of_a_processor_is_of_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    obstacles = []
    for host in ("x86-64-v2", "x86-64-v3", "x86-64-v2"):
        monkeypatch.setenv(VARIABLE, host)
        obstacles.append(processor_for("x86-64-v3").obstacle)
    assert obstacles[0] == obstacles[2] != obstacles[1] == ""
    assert open_cache().root.exists()


@v3
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_a_run_of_the_tests_is_for_the_least_of_a_level_and_this_machine(
    level: str, tmp_path: Path, root: Path
) -> None:
    """What is compiled by hand for more is skipped, with the reason, and counted."""
    (tmp_path / "test_inner.py").write_text(
        "import os, pytest, tiramisu_py as tm\nfrom tests import processors\n"
        "def test_host():\n"
        f"    assert tm.target().name == os.environ['{VARIABLE}'] == {level!r}\n"
        f"    assert processors.native(['-O1', '-march=native']) == ('-O1', '-march={level}')\n"
        "@pytest.mark.parametrize('flags', [['-mavx512f', '-O2'], ['-march=x86-64-v4', '-g']])\n"
        "def test_more(flags):\n    processors.require(flags)\n    assert False\n"
        "def test_target():\n    processors.require_target('x86-64-v4')\n    assert False\n"
        "def test_less():\n    processors.require(['-mssse3'])\n    processors.require_target('x86-64-v2')\n"
    )
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest", f"--processor={level}"]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, *command, str(tmp_path)],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed, 3 skipped" in done.stdout, done.stdout
    assert "what this processor cannot run" in done.stdout
    named = re.findall(r"^(\d) skipped: this machine lacks (.*) \(.*=(\S+) stands for", done.stdout, re.MULTILINE)
    assert {host for _, _, host in named} == {level} and sum(int(count) for count, _, _ in named) == 3
    assert all("AVX512F" in lacked for _, lacked, _ in named)


def test_a_level_that_this_machine_has_not_leaves_it_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    if not processors.toolchain(None).is_x86:
        pytest.skip("names processors of x86-64")
    own = processor_for()
    processors.become("knl")
    assert processor_for() == own and VARIABLE not in os.environ
    with pytest.raises(pytest.UsageError, match="--processor=pentagon"):
        processors.become("pentagon")


def test_the_summary_counts_each_lack() -> None:
    reasons = [
        "Skipped: this machine lacks AVX2",
        "no GPU",
        "Skipped: this machine lacks AVX2",
        "this machine lacks SSE4A",
    ]
    assert processors.counted(reasons) == ["2 skipped: this machine lacks AVX2", "1 skipped: this machine lacks SSE4A"]
