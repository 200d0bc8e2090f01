"""After each pass loops are sound, and the adversarial machine computes what `evaluate()` says, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import pytest

import tiramisu_py as tm
from tests.oracle.generators.cpu_random import random_cpu_script
from tests.oracle.generators.gpu_random import random_gpu_script
from tests.oracle.generators.random_programs import random_script
from tests.oracle.generators.rank_random import random_rank_script
from tests.oracle.generators.script import Script
from tests.passes.blame import wrong_pass
from tests.programs.every_pass import SAMPLES, Sample
from tiramisu_py.lower import lower
from tiramisu_py.passes import PIPELINE, optimise, shape, stages

#: A region of seeds, beside those of the fuzzers.
FIRST = 90_000_000


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_story_is_right_after_each_pass(sample: Sample) -> None:
    assert wrong_pass(sample.build(), *sample.sizes, register=sample.register) == ""


#: Fuzzers, with sizes at which vectors and windows are full and not.
FUZZERS: tuple[tuple[str, Callable[[int], Script], Mapping[str, int]], ...] = (
    ("core", random_cpu_script, {"N": 9, "M": 5, "K": 4}),
    ("gpu", random_gpu_script, {"N": 5, "M": 4, "K": 3}),
    ("rank", random_rank_script, {"N": 6, "M": 4, "K": 3}),
    ("plain", random_script, {"N": 6, "M": 5, "K": 4}),
)


@pytest.mark.parametrize(("kind", "make", "sizes"), FUZZERS, ids=[kind for kind, _, _ in FUZZERS])
def test_a_random_program_is_right_after_each_pass(
    kind: str, make: Callable[[int], Script], sizes: Mapping[str, int]
) -> None:
    scripts = ((seed, make(seed)) for seed in range(FIRST, FIRST + 40))
    proven = ((seed, script) for seed, script in scripts if "pad" not in script.text and script.function.check().ok)
    found = list(islice(proven, 3))
    assert len(found) == 3
    for seed, script in found:
        f = script.function
        params = {name: list(sizes.values())[position] for position, name in enumerate(f.algorithm.params)}
        assert wrong_pass(f, params, seed=seed) == "", f"seed {seed}\n{script.text}"


@pytest.mark.parametrize("sample", SAMPLES[:3], ids=lambda sample: sample.name)
def test_the_last_stage_is_what_is_compiled(sample: Sample) -> None:
    f = sample.build()
    *_, last = stages(partial(lower, f.completed), sample.register)
    assert shape(last.function) == shape(optimise(lower(f.completed), sample.register))


def test_the_names_of_a_list_tell_its_passes_apart() -> None:
    for part in (PIPELINE.first + PIPELINE.before_nests, PIPELINE.host + PIPELINE.after_nests, PIPELINE.kernel):
        names = [each.name for each in part]
        assert len(set(names)) == len(names)


def test_a_pass_that_follows_another_one_says_which() -> None:
    for part in (PIPELINE.first, PIPELINE.host + PIPELINE.after_nests, PIPELINE.kernel):
        for before, each in pairwise(part):
            assert each.after in ("", before.name)


@pytest.mark.parametrize("each", PIPELINE.passes, ids=lambda each: each.name)
def test_the_docstring_of_a_pass_shows_before_and_after(each: tm.Function) -> None:
    assert "-->" in (type(each).__doc__ or "")


def test_the_page_on_trust_says_what_watches_over_each_pass(root: Path) -> None:
    rows = [
        line.split("|")[1] for line in (root / "docs" / "trust.md").read_text().splitlines() if line.startswith("| ")
    ]
    for each in PIPELINE.passes:
        assert sum(f"`{type(each).__name__}`" in row for row in rows) == 1, type(each).__name__
