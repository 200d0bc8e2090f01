"""The tests of a change are those of its room, of the rooms that import it, and what is always run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tiers.changed import ALWAYS, BESIDE, FRONT, OF_THE_FRONT, importing, paths_for, room_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("tiramisu_py", FRONT),
        ("tiramisu_py.errors", "errors"),
        ("tiramisu_py.proof.memory.races", "proof"),
        ("tiramisu_py.backends.c.vectors.vectors", "backends/c"),
    ],
)
def test_a_module_is_in_the_room_of_its_folder(module: str, room: str) -> None:
    assert room_of(module) == room


def test_rooms_that_import_a_room_directly_are_those_whose_files_say_so() -> None:
    """Beside a search of the text for imports of recipes and of the proof."""
    for room in ("recipes", "proof"):
        said = re.compile(rf"^ *(from tiramisu_py\.{room}[. ]|from tiramisu_py import .*\b{room}\b)", re.MULTILINE)
        files = [path for path in (ROOT / "tiramisu_py").rglob("*.py") if said.search(path.read_text())]
        found = {path.relative_to(ROOT / "tiramisu_py").parts[0].removesuffix(".py") for path in files}
        assert importing([room]) | {room} >= {name for name in found if name != "__init__"}


def test_a_recipe_brings_recipes_and_what_uses_them() -> None:
    found = paths_for(["tiramisu_py/recipes/matmul.py"])
    assert {"tests/recipes", "tests/auto", "tests/refused"} <= set(found)
    assert not {"tests/proof", "tests/mpi", "tests/algorithm", "tests/backends/c"} & set(found)


def test_an_emitter_brings_what_is_built_upon_it() -> None:
    found = paths_for(["tiramisu_py/backends/c/emitter.py"])
    assert {"tests/backends/c", "tests/backends/cuda", "tests/toolchain"} <= set(found)


def test_the_front_brings_what_looks_at_all_names() -> None:
    assert {*OF_THE_FRONT} <= {*paths_for(["tiramisu_py/__init__.py"])}


def test_a_helper_of_tests_brings_the_tests_that_use_it() -> None:
    found = paths_for(["tests/racing.py"])
    assert any("tests.racing" in (ROOT / path).read_text() for path in found if path.endswith(".py"))
    assert paths_for(["tests/effort.py"]) != paths_for(["tests/racing.py"])


def test_a_test_brings_itself_and_a_page_the_tests_of_pages() -> None:
    assert "tests/proof/test_report.py" in paths_for(["tests/proof/test_report.py"])
    assert "tests/test_documentation.py" in paths_for(["docs/guide/02-algorithms.md"])


def test_nothing_changed_brings_nothing() -> None:
    assert paths_for([]) == []


def test_every_file_that_is_named_is_there() -> None:
    named = [*ALWAYS, *OF_THE_FRONT, *(path for paths in BESIDE.values() for path in paths), *BESIDE]
    assert [path for path in named if not (ROOT / path.partition("::")[0]).exists()] == []
