"""The tests of what was changed: `python -m tests.tiers.changed` prints them, `scripts/test --changed` runs them.

Changes are those since the branch left `main`, and what is not committed. A changed room brings its own tests, and
those of the rooms that import it directly: what imports these sees the change through them alone. Golden texts,
refusals and a hundred random programs are always with them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
#: Emitted texts, programs that are refused, and random programs before all judges.
ALWAYS = (
    "tests/backends/c/test_c_interface.py",
    "tests/backends/cuda/test_emit_kernels.py",
    "tests/backends/cuda/test_emit_host.py",
    "tests/refused",
    "tests/oracle/test_fuzz.py::test_all_judges_agree_on_random_programs[whole-0]",
    "tests/oracle/test_fuzz.py::test_all_judges_agree_on_random_programs[sums-0]",
)
#: Tests of what is in no room of the package, by the beginning of its path.
BESIDE = {
    "docs/results/": (),
    "docs/": ("tests/test_documentation.py", "tests/test_reference.py", "tests/test_site.py"),
    "README.md": ("tests/test_documentation.py", "tests/test_packaging.py"),
    "examples/polybench/": ("tests/test_polybench.py",),
    "examples/notebooks/": ("tests/test_notebooks.py",),
    "examples/": ("tests/test_examples.py",),
    "scripts/benchmarks/": ("tests/test_benchmarks.py",),
    "scripts/": ("tests/test_packaging.py", "tests/test_experiments.py"),
    "pyproject.toml": ("tests/test_packaging.py", "tests/test_rooms.py"),
    ".ci/": ("tests/test_packaging.py",),
    "tests/found/": ("tests/oracle/test_kept.py",),
    "tests/golden/": (),
}
#: The front of the package is in no room: it names what rooms have.
FRONT = "(front)"
OF_THE_FRONT = ("tests/test_reference.py", "tests/test_state.py", "tests/test_rooms.py")


def changed_files() -> list[str]:
    """The files that differ from `main` where this branch left it, and those that git does not know yet."""
    bases = (git("merge-base", name, "HEAD") for name in ("origin/main", "main"))
    base = next((found[0] for found in bases if found), "HEAD")
    return sorted({*git("diff", "--name-only", base), *git("ls-files", "--others", "--exclude-standard")})


def git(*words: str) -> list[str]:
    """The lines that git prints; none if it fails."""
    found = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.split("\n")[:-1] if found.returncode == 0 else []


def paths_for(files: Iterable[str]) -> list[str]:
    """The tests for these changed files, as pytest takes them."""
    files = list(files)
    found = [path for file in files for path in _own_paths(file)]
    rooms = {room for file in files for room in _rooms(file)}
    found += [path for room in sorted(rooms | importing(rooms)) for path in _paths_of_room(room)]
    return _without_parts({*found, *ALWAYS}) if found else []


def importing(rooms: Iterable[str]) -> set[str]:
    """The rooms that import one of these directly."""
    graph = grimp.build_graph("tiramisu_py", cache_dir=None)
    wanted = set(rooms)
    return {
        room_of(module)
        for module in graph.modules
        if wanted & {room_of(name) for name in graph.find_modules_directly_imported_by(module)}
    }


def room_of(module: str) -> str:
    """The room of a module, below the package; each emitter is one of its own."""
    _, *parts = module.split(".")
    return "/".join(parts[: 2 if parts[0] == "backends" else 1]) if parts else FRONT


def _rooms(file: str) -> Iterator[str]:
    """The rooms of the package that a changed file is in."""
    path = Path(file)
    if path.parts[0] == "tiramisu_py":
        module = ".".join(path.with_suffix("").parts)
        yield room_of(module.removesuffix(".__init__"))


def _paths_of_room(room: str) -> Iterator[str]:
    if room == FRONT:
        yield from OF_THE_FRONT
    for path in (f"tests/{room}", f"tests/test_{room}.py"):
        if (ROOT / path).exists():
            yield path


def _own_paths(file: str) -> Iterator[str]:
    """The tests of a file outside of the package, which may be a file of tests."""
    yield from next((tests for beginning, tests in BESIDE.items() if file.startswith(beginning)), ())
    path = Path(file)
    if path.parts[0] != "tests" or path.parts[1] in ("found", "golden", "tiers"):
        return
    if path.name.startswith("test_"):
        yield from [file] if (ROOT / file).exists() else []
    elif path.suffix == ".py":
        yield from _using(path.with_suffix("").parts)


def _using(module: tuple[str, ...]) -> list[str]:
    """The files of tests that import a helper of tests, or its room, by name."""
    names = (f"from {'.'.join(module)} import", f"from {'.'.join(module[:-1])} import {module[-1]}")
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in tests if any(name in path.read_text() for name in names)]


def _without_parts(paths: Iterable[str]) -> list[str]:
    """Paths without those inside of others."""
    found = list[str]()
    for path in sorted(paths):
        inside = Path(path.partition("::")[0])
        if not any(inside == Path(other) or Path(other) in inside.parents for other in found if "::" not in other):
            found.append(path)
    return found


if __name__ == "__main__":
    sys.stdout.write("".join(f"{path}\n" for path in paths_for(changed_files())))
