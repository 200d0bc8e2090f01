"""Counts the house: lines, modules, imports, helpers and names of this checkout, or of several beside each other.

    python scripts/house_figures.py [FOLDER ...]

Each folder is a checkout (``git archive COMMIT | tar -x -C FOLDER`` makes one). Prints a table in Markdown, as in
docs/results/house.md. Nothing is imported: the text is parsed.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from house_walks import stays

#: The rooms that are guests: they write schedules with what users have.
GUESTS = ("auto", "recipes", "tuning", "sparse")
#: The lines beyond which a function is long.
LONG = 60


@dataclass(frozen=True)
class Module:
    """A file of the package."""

    path: Path
    room: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def import_lines(self) -> int:
        found = (node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom))
        return sum(_length(node) for node in found)

    @property
    def functions(self) -> list[ast.FunctionDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)]

    def callers_of_helpers(self) -> list[int]:
        """The number of places that name each private function of the module."""
        named = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        helpers = {each.name for each in self.functions if re.match(r"_(?!_)", each.name)}
        return [named[name] for name in helpers]


def main() -> int:
    folders = [Path(each) for each in sys.argv[1:]] or [Path(__file__).resolve().parent.parent]
    columns = [figures(folder) for folder in folders]
    sys.stdout.write("\n".join(table([folder.resolve().name for folder in folders], columns)) + "\n")
    return 0


def table(names: Iterable[str], columns: list[dict[str, str]]) -> list[str]:
    """The figures of each checkout, a column each."""
    rows = [["", *names], ["---", *("---:" for _ in columns)]]
    rows += [[what, *(column[what] for column in columns)] for what in columns[0]]
    return [f"| {' | '.join(row)} |" for row in rows]


def figures(root: Path) -> dict[str, str]:
    """Each figure of a checkout, as text."""
    modules = modules_of(root)
    own = [each for each in modules if each.path.name != "__init__.py"]
    lengths = [_length(function) for each in modules for function in each.functions]
    callers = [count for each in modules for count in each.callers_of_helpers()]
    largest = max(own, key=lambda each: each.lines)
    guests = [each for each in modules if each.room in GUESTS]
    page = (root / "docs" / "commands.md").read_text()
    return {
        "lines of the package, emitters and their C included": _thousands(
            _total(modules, lambda m: m.lines) + _c(root)
        ),
        "lines of tests": _thousands(sum(path.read_text().count("\n") for path in (root / "tests").rglob("*.py"))),
        "modules": _thousands(len(own)),
        "lines of the median module": f"{median(each.lines for each in own):.0f}",
        "lines of the largest module": f"{largest.lines}",
        "lines that import": _percent(_total(modules, lambda m: m.import_lines), _total(modules, lambda m: m.lines)),
        "private functions with one caller": _percent(callers.count(1), len(callers)),
        f"functions over {LONG} lines": f"{sum(length > LONG for length in lengths)}",
        f"lines of {', '.join(GUESTS)}": _thousands(_total(guests, lambda m: m.lines)),
        "stays of a program on its trip through `compute_at`": f"{len(stays(root, 'ComputeAt', 'applied', 'program'))}",
        "public names": f"{len(public_names(root))}",
        "sections of the reference of commands": f"{len(re.findall(r'^##+ ', page, re.MULTILINE))}",
    }


def modules_of(root: Path) -> list[Module]:
    """The modules of the package, each once: older checkouts have a link to their emitters."""
    files = {path.resolve(): path for path in (root / "tiramisu_py").rglob("*.py")}
    files |= {path.resolve(): path for path in (root / "backends").rglob("*.py")}
    return [
        Module(path, _room(path.relative_to(root)), text := path.read_text(), ast.parse(text))
        for path in files.values()
    ]


def public_names(root: Path) -> list[str]:
    """The names in `__all__` of the package's front."""
    for node in ast.parse((root / "tiramisu_py" / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(each) for each in ast.literal_eval(node.value)]
    return []


def _room(path: Path) -> str:
    return path.parts[1] if path.parts[0] == "tiramisu_py" else path.parts[0]


def _c(root: Path) -> int:
    """The lines of C that come with the emitters."""
    found = {path.resolve() for top in ("tiramisu_py", "backends") for path in (root / top).rglob("*.[ch]")}
    return sum(path.read_text().count("\n") for path in found)


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _total(modules: Iterable[Module], count: Callable[[Module], int]) -> int:
    return sum(map(count, modules))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def _thousands(number: int) -> str:
    return f"{number:,}"


if __name__ == "__main__":
    sys.exit(main())
