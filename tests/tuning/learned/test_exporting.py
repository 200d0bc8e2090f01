"""Exported versions: a library that is made from C alone, and chooses by its table."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.tuning.learned.pretended import RANGES, SMALL, product

#: The widest vectors where a row has whole ones, the narrowest where it has two elements.
SHAPES = [{"N": 8, "M": 64, "K": 8}, {"N": 8, "M": 2, "K": 8}]


def narrow(point: dict[str, Any], sizes: dict[str, int]) -> float:
    """A time that is the least for as many lanes as a row has elements."""
    return 1e-6 * (1 + abs(min(sizes["M"], 8) - point["lanes"]))


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    made = product(tmp_path, timer=narrow, space={"lanes": [2, 8], "loop": ["i"]})
    made.collect({**RANGES, "M": (2, 64)}, samples=150)
    made.fit(**{**SMALL, "epochs": 20})
    return made.export(tmp_path / "out", [*SHAPES, SHAPES[0]])


def test_each_version_is_written_once_and_a_table_chooses(exported: Path) -> None:
    assert sorted(path.name for path in exported.iterdir()) == [
        "Makefile",
        "product.c",
        "product.h",
        "product_0",
        "product_1",
    ]
    source = (exported / "product.c").read_text()
    assert "{{8, 64, 8}, 0}," in source and "{{8, 2, 8}, 1}," in source and source.count("case 0:") == 2
    assert (exported / "product_1" / "product_1.h").exists()


@pytest.mark.slow
def test_a_program_in_c_runs_the_version_of_the_nearest_sizes(exported: Path) -> None:
    made = subprocess.run(["make", "-C", exported], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    shared = exported / "all.so"
    subprocess.run(
        ["cc", "-shared", "-o", shared, "-Wl,--whole-archive", exported / "libproduct.a", "-Wl,--no-whole-archive",
         "-fopenmp", "-lm"], check=True,
    )  # fmt: skip
    library = ctypes.CDLL(str(shared))
    library.product_version.restype = library.product_last_error.restype = ctypes.c_char_p
    random = np.random.default_rng(0)
    for m, lanes in ((64, 8), (2, 2), (50, 8), (3, 2), (1000, 8)):
        sizes = [ctypes.c_int64(each) for each in (9, m, 5)]
        assert library.product_version(*sizes) == f"lanes={lanes}, loop='i'".encode()
        a, b = (random.integers(-9, 9, shape).astype(np.int32) for shape in ((9, 5), (5, m)))
        c = np.empty((9, m), np.int32)
        assert library.product(*sizes, *(ctypes.c_void_p(each.ctypes.data) for each in (a, b, c))) == 0
        np.testing.assert_array_equal(c, a @ b)
    assert library.product(*(ctypes.c_int64(-1),) * 3, None, None, None) != 0
    assert b"N" in library.product_last_error()


@pytest.mark.parametrize(
    ("shapes", "words"),
    [([], "shapes=.*give a list of sizes"), ({"N": 3}, "shapes="), ([{"N": 3, "M": 3}], "shapes lacks the size K")],
)
def test_shapes_that_are_none_are_refused(tmp_path: Path, shapes: Any, words: str) -> None:
    with pytest.raises(tm.ArgumentError, match=words):
        product(tmp_path).export(tmp_path / "out", shapes)
