"""PolyBench's kernels in each form, and the C programs beside them, agree with NumPy at small and odd sizes."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from benchmarks.common.rounds import START
from tests.folders import modules_of

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "polybench"
STORY = "kernel_story"
KERNELS = sorted(each.stem for each in FOLDER.glob("*.py") if each.stem != STORY)
SIZES = ("ONE", "ODD", "MINI")
NARROW = "x86-64-v3"
C_TYPES = {"int64_t": ctypes.c_int64, "float": ctypes.c_float, "double": ctypes.c_double}


@contextmanager
def modules(name: str) -> Iterator[tuple[ModuleType, ModuleType]]:
    """A kernel, and the story that all of them share."""
    with modules_of(FOLDER) as load:
        yield load(name), load(STORY)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_as_it_is_declared_is_as_close_to_numpy_as_it_says(name: str) -> None:
    with modules(name) as (told, story):
        kernel = story.made("plain", told.algorithm, told.scheduled).compile(fast=story.FAST, threads=1)
        agrees(kernel, told, story)


@pytest.mark.parametrize("name", KERNELS)
def test_a_schedule_by_hand_is_as_close_to_numpy_as_it_says(name: str) -> None:
    """On two threads; in the form for 16 registers where this processor can run it: it has a third of the code."""
    cpu = tm.target(NARROW) if NARROW in tm.target().features else tm.target()
    with modules(name) as (told, story):
        agrees(told.scheduled(cpu).compile(fast=story.FAST, threads=2, target=cpu.name), told, story)


@pytest.mark.parametrize("name", KERNELS)
def test_an_automatic_schedule_is_as_close_to_numpy_as_it_says(name: str) -> None:
    cpu = tm.target(NARROW) if NARROW in tm.target().features else tm.target()
    with modules(name) as (told, story):
        f = told.algorithm()
        f.auto_schedule(target=cpu, threads=2)
        agrees(f.compile(fast=story.FAST, threads=2, target=cpu.name), told, story)


@pytest.mark.parametrize("name", ["syrk", "gemver"])
def test_a_schedule_by_hand_for_this_processor_is_as_close_to_numpy_as_it_says(name: str) -> None:
    with modules(name) as (told, story):
        agrees(story.made("hand", told.algorithm, told.scheduled).compile(fast=story.FAST, threads=1), told, story)


def test_an_example_compares_its_forms_and_says_that_they_are_right(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "gesummv.py"), "--time", "MINI"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "gesummv, hand, MINI, threads: 2" in run.stdout
    assert run.stdout.rstrip().splitlines()[-1].startswith("right:"), run.stdout


def agrees(kernel: tm.Kernel, told: ModuleType, story: ModuleType) -> None:
    """Raises unless a kernel is right at the smallest sizes, at odd ones, and at the smallest of PolyBench."""
    for size in SIZES:
        story.compare(kernel, told.sample(told.SIZES[size]), told.exact, told.CLOSE)


@pytest.mark.parametrize("name", ["gemm", "trmm"])
def test_a_kernel_in_place_changes_the_array_of_the_caller_and_no_other(name: str) -> None:
    with modules(name) as (told, story):
        given = told.sample(told.SIZES["ODD"])
        held = story.copied(given)
        found = told.algorithm().compile(fast=story.FAST, threads=1)(**held)
        changed = {each for each, value in held.items() if not np.array_equal(value, given[each])}
        assert changed == {"gemm": {"C"}, "trmm": {"B"}}[name]
        assert found is held[next(iter(changed))]


@pytest.mark.parametrize("name", KERNELS)
def test_the_c_programs_of_a_kernel_agree_with_numpy(name: str, tmp_path: Path) -> None:
    source, library = FOLDER / "c" / f"{name}.c", tmp_path / f"{name}.so"
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    command = ["gcc", "-O1", "-Wall", "-Werror", "-fopenmp", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
    subprocess.run(command, check=True, timeout=60)
    functions = ctypes.CDLL(str(library))
    with modules(name) as (told, story):
        f = told.algorithm()
        for size in SIZES:
            given = told.sample(told.SIZES[size])
            expected = told.exact(story.copied(given))
            for form in ("plain", "pluto"):
                results = called(functions[f"{name}_{form}"], f, {**told.SIZES[size], **story.copied(given)}, expected)
                for result, right in zip(results, expected, strict=True):
                    largest = max(float(np.abs(right).max(initial=0)), 1.0)
                    np.testing.assert_allclose(result, right, rtol=0, atol=told.CLOSE * largest, err_msg=form)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_kernels_are_measured_beside_c_and_compared_with_it() -> None:
    asked = ["--only", "trisolv", "--size", "MINI", "--threads", "1", "--contenders", "gcc,plain"]
    command = [*START, "polybench", *asked, "--seconds", "0", "--rounds", "1"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    times, ratios = (line for line in printed.splitlines() if line.startswith("| trisolv"))
    took, ours = (float(cell) for cell in times.split("|")[2:4])
    assert float(ratios.split("|")[2]) == pytest.approx(took / ours, rel=0.1, abs=0.01)


def called(function: Any, f: tm.Function, values: dict[str, Any], expected: tuple[Any, ...]) -> list[Any]:
    """The results of a C function, which has the arguments of the function that is generated."""
    kernel = f.compile(fast=("contract",), threads=1)
    outputs = kernel.function.outputs
    for output, right in zip(outputs, expected, strict=True):
        if output not in values:
            values[output] = np.zeros_like(kernel.empty(output, **{each: values[each] for each in f.algorithm.params}))
        assert values[output].shape == right.shape
    arguments: list[Any] = []
    for kind, star, name in re.findall(r"(\w+) (\*?)(\w+)[,)]", kernel.signature):
        value = values[name]
        arguments.append(value.ctypes.data_as(ctypes.c_void_p) if star else C_TYPES[kind](value))
    function(*arguments)
    return [values[output] for output in outputs]
