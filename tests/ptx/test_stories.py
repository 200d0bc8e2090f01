"""Kernels of examples and stories on the machine: what nvcc or NVRTC makes of them is right, under many seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.gpu.test_stories import listed, module, samples, variants
from tests.ptx import running
from tests.schedule.devices.test_pipeline import CASES, SIZES, factors, product
from tests.selection import some

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: In a plain run: shared memory and barriers; trees by shuffles, with shared memory, and by the last block; copies on
#: streams between the host and two devices.
CHOSEN = {("gpu/transpose", "tiled"), ("gpu/sums", "tree"), ("cooperative/blur", "two GPUs")}
SEEDS = range(6)
MARKER = "pytest.mark.gpu"
#: Those with kernels; the others, and ranks, have tests of their own.
STORIES = sorted(
    str(path.relative_to(EXAMPLES))
    for folder in ("gpu", "reductions", "cooperative")
    for path in EXAMPLES.glob(f"{folder}/*.py")
    if path.stem not in ("story", "ranks") and "gpu" in path.read_text()
)


def right(kernel: tm.Kernel, given: dict[str, object], expected: object, options: str = "") -> None:
    for seed in SEEDS:
        running.choose(f"seed={seed} {options}")
        for found, wanted in zip(listed(kernel(**given)), listed(expected), strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=f"seed {seed}")


@pytest.mark.ptx
@pytest.mark.parametrize(("name", "variant"), some(variants(), lambda each: each in CHOSEN))
def test_a_story_is_right_under_many_seeds(name: str, variant: str) -> None:
    story = module(name)
    f = story.VARIANTS[variant]()
    kernel = f.compile(device="gpu")
    for given in (dict(given) for size in (3, 20) for given in samples(story, variant, size, 7)):
        right(kernel, given, f.evaluate(**given))


@pytest.mark.ptx
@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), list(variants()))
def test_copies_past_the_registers_are_right_under_many_seeds(name: str, variant: str) -> None:
    """For sm_80, where cp.async is."""
    running.choose("arch=81")
    story = module(name)
    f = story.VARIANTS[variant]()
    kernel = f.compile(device="gpu", architectures=("compute_80",))
    for given in (dict(given) for given in samples(story, variant, 20, 7)):
        right(kernel, given, f.evaluate(**given), "arch=81")


@pytest.mark.ptx
@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "machine"), [("compute_75", "arch=75"), ("compute_80", "arch=81")])
@pytest.mark.parametrize("name", list(CASES))
def test_a_pipeline_is_right_under_many_seeds(name: str, architecture: str, machine: str) -> None:
    """For sm_75 through registers, for sm_80 with groups of copies under way."""
    running.choose(machine)
    s = CASES[name]()
    s.f.derive_transfers()
    kernel = s.f.compile(device="gpu", architectures=(architecture,))
    for sizes in SIZES:
        arrays = factors(sizes)
        right(kernel, arrays, product(name, **arrays), machine)


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_an_example_passes_its_own_check(story: str, tmp_path: Path) -> None:
    if running.missing():
        pytest.skip(running.missing())
    log = tmp_path / "log"
    told = running.run([EXAMPLES / story], f"seed=2 log={log}", cwd=tmp_path, timeout=900)
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.rstrip().splitlines()[-1].startswith("right:"), told.stdout
    assert log.read_text().count(" grid ") > 0


@pytest.mark.slow
def test_the_tests_that_wait_for_a_gpu_pass() -> None:
    if running.missing():
        pytest.skip(running.missing())
    marked = [path for path in EXAMPLES.parent.glob("tests/**/test_*.py") if f"@{MARKER}" in path.read_text()]
    arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", *marked]
    told = running.run(arguments, "seed=4", timeout=1800)
    assert told.returncode == 0 and " passed" in told.stdout and " skipped" not in told.stdout, told.stdout
