"""Selections of families of tests: nothing is lost with `--all`, and every value occurs without it."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.selection import covering, first, some

ROOT = Path(__file__).resolve().parent.parent


def plain(parameters: list[Any]) -> list[tuple[Any, ...]]:
    """The parameters of a plain run."""
    return [each.values for each in parameters if not each.marks]


@pytest.mark.parametrize("lengths", [(3, 5), (4, 2, 3), (1, 1), (6, 6), (2,)])
@pytest.mark.parametrize("each", [1, 2])
def test_every_value_of_every_axis_occurs_in_a_plain_run(lengths: tuple[int, ...], each: int) -> None:
    axes = [[f"{name}{k}" for k in range(length)] for name, length in zip("abc", lengths, strict=False)]
    found = covering(*axes, each=each)
    assert [parameters.values for parameters in found] == list(product(*axes))
    chosen = plain(found)
    assert max(lengths) <= len(chosen) <= each * max(lengths)
    for k, axis in enumerate(axes):
        assert {values[k] for values in chosen} == set(axis)


def test_values_that_belong_together_stay_so() -> None:
    assert plain(covering([("a", 1), ("b", 2)], ["x"])) == [("a", 1, "x"), ("b", 2, "x")]
    assert covering([1, 2], []) == []


def test_some_and_the_first_of_a_list_are_plain() -> None:
    assert plain(some([("a", 1), ("b", 2)], lambda each: each[1] > 1)) == [("b", 2)]
    assert plain(first([3, 2, 1], 2)) == [(3,), (2,)]


@pytest.mark.parametrize(("arguments", "run"), [([], "1 passed, 1 deselected"), (["--all"], "2 passed")])
def test_a_plain_run_leaves_out_what_is_slow(arguments: list[str], run: str, tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('x', [1, pytest.param(2, marks=pytest.mark.slow)])\n"
        "def test_it(x):\n"
        "    assert x\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-c",
        ROOT / "pyproject.toml",
        tmp_path,
        *arguments,
    ]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert run in said.splitlines()[-1], said
