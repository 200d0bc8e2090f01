"""The stories of examples/gpu and examples/cooperative: right in the simulator under many seeds, compiled by nvcc and
NVRTC, and minimal.

Minimal: taking any one barrier or wait out of the emitted text makes the simulator fail, unless the proof calls it
superfluous.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tiramisu_py as tm
from tests.selection import covering
from tiramisu_py.backends import emit
from tiramisu_py.backends.cuda.kernel_text import signatures
from tiramisu_py.toolchain import compile_function
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.nvcc import Nvcc, find_nvcc
from tiramisu_py.toolchain.compilers.nvrtc import Nvrtc, find_nvrtc

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
FOLDERS = ("gpu", "cooperative")
SEEDS = 50
SYNCHRONISES = re.compile(r"^ *(TM_BARRIER\(\);|TM_TRY\(tm_gpu_wait_\w+\([^;]*\)\);)$", re.MULTILINE)
WAITS_FOR_COPY = re.compile(r"^( *TM_TRY\(tm_gpu_copy\([^;]*),\s+true\)\);$", re.MULTILINE)

#: Waits whose lack no value shows. The only row of the plate that is left to the cores may be its edge, which is copied
#: to the GPU and computed again, the same in every step.
UNSEEN = {"cooperative/heat": ("heat_to_gpu_done[",)}

Arguments = Mapping[str, object]


@functools.cache
def module(name: str) -> ModuleType:
    """A story, imported as it is when it is run, but under a name that nothing else has."""
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"story_of_{name.replace('/', '_')}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path.parent))
        patch.delitem(sys.modules, "story", raising=False)
        spec.loader.exec_module(found)
        sys.modules.pop("story", None)
    return found


STORIES = sorted(
    f"{folder}/{path.stem}"
    for folder in FOLDERS
    for path in (EXAMPLES / folder).glob("*.py")
    if path.stem not in ("story", "ranks")  # the latter is one of tests/mpi
)


def variants() -> Iterator[tuple[str, str]]:
    """Every story with every one of its schedules."""
    for name in STORIES:
        for variant in module(name).VARIANTS:
            yield name, variant


def samples(story: ModuleType, variant: str, size: int, seed: int) -> list[Arguments]:
    """Arguments for a variant of a story: of a cooperative one, for each split of the work."""
    if hasattr(story, "SPLITS"):
        return [dict(story.sample(split, size, seed)) for split in story.SPLITS]
    if hasattr(story, "sample_of"):
        return [dict(story.sample_of(variant, size, seed))]
    return [dict(story.sample(size, seed))]


def listed(results: object) -> tuple[np.ndarray, ...]:
    """One result or several, as a tuple."""
    return results if isinstance(results, tuple) else (np.asarray(results),)


def is_right(kernel: tm.Kernel, given: Arguments, expected: tuple[np.ndarray, ...]) -> bool:
    """Whether a kernel runs without an error, and computes what is expected."""
    try:
        found = listed(kernel(**given))
    except tm.KernelError:
        return False
    return all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize(("name", "variant"), list(variants()))
def test_a_story_is_right_in_the_simulator_with_checks_on_under_many_seeds(name: str, variant: str) -> None:
    story = module(name)
    f = story.VARIANTS[variant]()
    kernel = f.compile(device="simulator", sanitize=True)
    for given in samples(story, variant, 3, 7):
        expected = listed(f.evaluate(**given))
        for seed in range(SEEDS):
            results = listed(kernel.seeded(seed, ("lazy", "shuffled")[seed % 2])(**given))
            for found, right in zip(results, expected, strict=True):
                np.testing.assert_array_equal(found, right, err_msg=f"seed {seed}")


@pytest.mark.parametrize(("name", "architecture"), covering(STORIES, [75, 80, 90]))
def test_nvcc_compiles_the_kernels_of_a_story_without_a_warning(name: str, architecture: int) -> None:
    nvcc = find_nvcc(open_cache())
    if isinstance(nvcc, str):
        pytest.skip(nvcc)
    compiled(nvcc, name, architecture, ("-std=c++17", "--fmad=false", "-Werror", "all-warnings"))


@pytest.mark.parametrize("name", STORIES)
def test_nvrtc_compiles_the_kernels_of_a_story(name: str) -> None:
    nvrtc = find_nvrtc(open_cache())
    if isinstance(nvrtc, str):
        pytest.skip(nvrtc)
    compiled(nvrtc, name, 80, ("--std=c++17", "--fmad=false"))


def compiled(compiler: Nvcc | Nvrtc, name: str, architecture: int, flags: tuple[str, ...]) -> None:
    """Compile the kernels of all schedules of a story."""
    for build in module(name).VARIANTS.values():
        f = build()
        image, _ = compiler.compile(f"{f.name}.cu", f.source(), Architecture(architecture), flags)
        assert image.startswith(b"\x7fELF")


@pytest.mark.parametrize(("name", "variant"), list(variants()))
def test_without_any_one_barrier_or_wait_the_simulator_fails(name: str, variant: str) -> None:
    story = module(name)
    f = story.VARIANTS[variant]()
    assert f.check().superfluous == ()
    tries = [(given, listed(f.evaluate(**given))) for given in samples(story, variant, 60, 7)]
    function = f.show("lowered")
    emitted = emit(function)
    for described, files in mutants(emitted):
        if any(unseen in described for unseen in UNSEEN.get(name, ())):
            continue
        kernel = compile_function(
            function,
            replace(emitted, files=files),
            f.algorithm,
            kernels=signatures(function),
            device="simulator",
            sanitize=True,
        )
        seeded = (kernel.seeded(seed, timing) for seed in range(SEEDS) for timing in ("lazy", "shuffled"))
        assert not all(is_right(each, *one) for each in seeded for one in tries), described


def mutants(sources: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The sources with one barrier or wait left out, or one copy that the host does not wait for."""
    for file, text in sources.items():
        if file.startswith("tm_"):
            continue
        for found in SYNCHRONISES.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{file}:{line}: {found[0].strip()}", {**sources, file: text[: found.start()] + text[found.end() :]}
        for found in WAITS_FOR_COPY.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            changed = f"{found[1]}, false));"
            yield (
                f"{file}:{line}: {changed.strip()}",
                {**sources, file: text[: found.start()] + changed + text[found.end() :]},
            )
