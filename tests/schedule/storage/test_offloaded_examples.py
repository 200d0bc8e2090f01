"""The example whose levels are in a file: without any one of its copies, fetches and waits it is refused, and wrong."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests.folders import modules_of
from tests.schedule.storage.test_offload import unproven
from tiramisu_py.proof import check

with modules_of(Path(__file__).resolve().parents[3] / "examples" / "memory") as _load:
    heat = _load("heat_adjoint")

SIZES = {"T": 12, "N": 9}


@cache
def example() -> tm.Function:
    """The adjoint with its levels in a file."""
    made: tm.Function = heat.in_files()
    return made


def test_no_other_example_has_files_of_its_program() -> None:
    folder = Path(__file__).resolve().parents[3] / "examples"
    words = (".offload(", "2FILE", "FILE2")
    found = [each.stem for each in sorted(folder.rglob("*.py")) if any(word in each.read_text() for word in words)]
    assert found == ["heat_adjoint"]


def test_these_are_all_of_its_copies_and_waits() -> None:
    found = [
        s.name
        for s in example().completed.statements.values()
        if s.link.transfer is not None or s.link.waits is not None
    ]
    assert sorted(found) == ["u_loaded", "u_loaded_wait", "u_stored", "u_stored_wait", "u_stored_wait2"]


@pytest.mark.parametrize("name", ["u_stored", "u_stored_wait", "u_stored_wait2", "u_loaded", "u_loaded_wait"])
def test_each_one_taken_out_is_refused_and_found(name: str) -> None:
    f = example()
    program = f.completed
    program = program.with_(statements={n: s for n, s in program.statements.items() if n != name})
    assert not check(program).ok
    given = heat.given(SIZES["N"])
    right = f.evaluate(**given, T=SIZES["T"])
    kernel = unproven(program, f.algorithm)
    found = 0
    for seed in range(20):
        try:
            made = kernel.seeded(seed)(**given, T=SIZES["T"])
            found += not all(np.allclose(a, b, rtol=1e-12) for a, b in zip(made, right, strict=True))
        except tm.KernelError:  # nothing has waited for it in the end
            found += 1
    assert found > 0
