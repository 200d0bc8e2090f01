"""Each example is a story with its own check: it runs from anywhere, exits 0 and says that the check passed."""

from __future__ import annotations

import platform
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm
from tests.disks import on_disk
from tests.forking import run
from tests.programs import cpu_stories, linear_stories
from tests.selection import covering

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
FOLDERS = ("cpu", "linear", "reductions", "apps")
GRADIENTS = sorted(EXAMPLES.glob("gradients/*.py"))
MEMORY = sorted(EXAMPLES.glob("memory/*.py"))
ON_CORES = sorted(each for folder in FOLDERS for each in EXAMPLES.glob(f"{folder}/*.py") if each.stem != "story")
PROCESSORS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
PHOTOGRAPH = EXAMPLES / "blur_photograph.py"  # runs in a test of its own
STORIES = [
    *sorted({*EXAMPLES.glob("*.py")} - {PHOTOGRAPH}),
    *sorted(EXAMPLES.glob("sparse/*.py")),
    *sorted(EXAMPLES.glob("blocks/*.py")),
    *sorted({*EXAMPLES.glob("graphs/*.py")} - {EXAMPLES / "graphs" / "models.py"}),
    *GRADIENTS,
    *MEMORY,
    *ON_CORES,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_an_example_runs_and_passes_its_own_check(story: Path, tmp_path: Path) -> None:
    if story == EXAMPLES / "memory" / "transformer.py":
        pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")
    told = run([story], cwd=Path(on_disk(tmp_path)) if story in MEMORY else tmp_path)
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.rstrip().splitlines()[-1].startswith("right:"), told.stdout


def test_the_photograph_is_blurred_and_written_beside_the_original(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    told = run([PHOTOGRAPH, "--out", tmp_path])
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.rstrip().splitlines()[-1].startswith("right:"), told.stdout
    before, after = (image.open(tmp_path / name) for name in ("before.png", "after.png"))
    assert before.size == after.size == (512, 600)
    assert image.open(tmp_path / "before_and_after.png").size[0] > 2 * 512
    assert before.tobytes() != after.tobytes()


@pytest.mark.parametrize("name", ["blur", "gauss"])
def test_a_story_is_the_same_in_either_order_of_its_stages(name: str) -> None:
    down_first, across_first = (cpu_stories.module(name).algorithm(across_first)[0] for across_first in (False, True))
    assert tm.equivalent(down_first, across_first).ok


@pytest.mark.parametrize(("name", "options"), cpu_stories.stories(), ids=str)
def test_a_story_on_cores_is_right_at_awkward_sizes_on_two_threads(name: str, options: tuple[Any, ...]) -> None:
    for f in cpu_stories.schedules(name, options):
        assert f.check().bits == "bits preserved"
        cpu_stories.same(name, options, f.compile(threads=2), f)


@pytest.mark.parametrize(("name", "processor"), covering(["blur", "gauss", "edge"], PROCESSORS))
def test_a_story_in_the_form_for_another_processor_is_right(name: str, processor: str) -> None:
    if platform.machine() != "x86_64" or processor not in ("x86-64-v2", *tm.target().features):
        pytest.skip(f"this processor is no {processor}")
    f = cpu_stories.module(name).scheduled(tm.target(processor))
    assert f.check().ok
    cpu_stories.same(name, (), f.compile(target=processor, threads=1), f)


@pytest.mark.parametrize(("name", "options"), linear_stories.others(), ids=str)
def test_other_types_and_schedules_of_a_linear_story_are_as_close_to_numpy_as_rounding_allows(
    name: str, options: linear_stories.Options
) -> None:
    linear_stories.same(name, options)


@pytest.mark.parametrize(
    ("name", "processor"), covering([each.stem for each in ON_CORES if each.parent.name == "apps"], PROCESSORS)
)
def test_an_app_in_the_form_for_another_processor_is_as_close_to_numpy_as_it_says(name: str, processor: str) -> None:
    if platform.machine() != "x86_64" or processor not in ("x86-64-v2", *tm.target().features):
        pytest.skip(f"this processor is no {processor}")
    told, story = (cpu_stories.module(each, EXAMPLES / "apps") for each in (name, "story"))
    kernel = told.scheduled(tm.target(processor)).compile(target=processor, fast=story.FAST, threads=1)
    for size in getattr(told, "SIZES", story.SIZES):
        story.compare(kernel, told.sample(*size), told.exact, told.CLOSE)


@pytest.mark.parametrize("factor", [Fraction(3, 2), Fraction(1, 2)], ids=str)
def test_a_picture_has_any_fraction_of_its_size(factor: Fraction) -> None:
    told, story = (cpu_stories.module(each, EXAMPLES / "apps") for each in ("resize", "story"))
    kernel = told.scheduled(factor=factor).compile(fast=story.FAST, threads=2)
    for rows, columns in story.SIZES:
        given = told.sample(rows, columns, factor)
        story.compare(kernel, given, lambda given: told.exact(given, factor), told.CLOSE)
