"""The house: the documentation lists all rooms, and few classes share a name."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

import house_figures
from house_walks import stays

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tiramisu_py"


def rooms() -> dict[str, list[str]]:
    """The modules of each room, by its path; without the emitters' files that are no Python."""
    found: dict[str, list[str]] = {}
    for top in (PACKAGE, ROOT / "scripts" / "benchmarks"):
        for path in sorted(top.rglob("*.py")):
            folder = path.parent.relative_to(PACKAGE if top is PACKAGE else ROOT).as_posix()
            names = found.setdefault(folder, [])
            if path.stem != "__init__":
                names.append(path.stem)
    return found


def test_the_documentation_lists_every_room_that_there_is() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text()
    listed = set(re.findall(r"^\| `([a-z/]+)/` \|", page, re.MULTILINE))
    there = {room for room in rooms() if room != "." and not room.startswith(("backends/", "scripts/"))}
    assert listed == there


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("tiramisu_py", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 500
    TopologicalSorter(imports).prepare()  # raises CycleError, with the circle


#: Public classes of one name, and why: what the user holds and what it stands for, or a command and what becomes of it.
SHARED_CLASSES = {
    "Barrier": "a handle, and the node of the loop IR",
    "Collective": "calls of ranks in a program, and in the loop IR",
    "Computation": "a handle, and the declaration",
    "Input": "a handle, and the declaration",
    "Launch": "of a loop's tag, and the node of the loop IR",
    "Piece": "a handle of a part, and a box that a message has",
    "Prefetch": "the command, and the node of the loop IR",
    "Storage": "where a program keeps the values of a source, and the rates of a disk",
    "Transfer": "a handle, and what a statement has",
    "Vectorize": "the command, and the pass",
}


def test_one_name_means_one_thing() -> None:
    classes: dict[str, list[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        if file.name == "__init__.py":
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes.setdefault(node.name, []).append(str(file))
    assert {name for name, places in classes.items() if len(places) > 1} == set(SHARED_CLASSES)


def test_the_house_is_counted_as_by_hand(tmp_path: Path) -> None:
    room = tmp_path / "tiramisu_py" / "recipes"
    room.mkdir(parents=True)
    (tmp_path / "tiramisu_py" / "__init__.py").write_text('__all__ = ["f", "g"]\n')
    (room / "sums.py").write_text("from a import (\n    b,\n)\n\n\ndef _once():\n    return b\n\n\nx = _once()\n")
    (room / "__init__.py").write_text("def _twice(): ...\n\n\n_twice()\n_twice()\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "commands.md").write_text("# All\n\n## one\n\n### two\n")
    found = house_figures.figures(tmp_path)
    assert found["lines that import"] == f"{100 * 3 / 16:.1f} %" and found["modules"] == "1"
    assert found["private functions with one caller"] == "50.0 %" and found["public names"] == "2"
    assert (
        found["lines of auto, recipes, tuning, sparse"] == "15"
        and found["sections of the reference of commands"] == "2"
    )


def test_a_trip_goes_where_an_argument_is_handed_and_asked(tmp_path: Path) -> None:
    room = tmp_path / "tiramisu_py"
    room.mkdir()
    (room / "a.py").write_text(
        "from tiramisu_py.b import near\n\n\nclass A:\n    def applied(self, program):\n"
        "        first = near(1, own=program)\n        return _here(near(program.size, 2), program), near(0, program)\n"
        "\n\ndef _here(x, p):\n    return far(p)\n"
    )
    (room / "b.py").write_text("def near(x, own):\n    return far(own.size)\n")
    (room / "c.py").write_text("class Program:\n    @property\n    def size(self): ...\n\n\ndef far(x): ...\n")
    files = [file.removeprefix("tiramisu_py/") for file in stays(tmp_path, "A", "applied", "program")]
    assert files == ["a", "b", "c", "a", "c", "b"]  # near, its size; the size, _here, far; near again
    assert stays(tmp_path, "B", "applied", "program") == []
