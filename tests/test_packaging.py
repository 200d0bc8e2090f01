"""What a user gets from pip: a wheel with every room in it, that works in an empty environment."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
import sys
import numpy as np
import tiramisu_py as tm
import tiramisu_py.backends.c

assert "site-packages" in tm.__file__, tm.__file__
N, = tm.params("N")
i, = tm.iters("i")
f = tm.Function("twice", params=[N])
a = f.input("a", tm.float32, [N])
f.outputs(f.computation("b", {i: N}, 2 * a[i]))
given = np.arange(5, dtype=np.float32)
np.testing.assert_array_equal(f.compile()(given), given * 2)
print("ok")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the tracked and new files as pip would build it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    present = [name for name in names.splitlines() if (ROOT / name).is_symlink() or (ROOT / name).exists()]
    subprocess.run(["cp", "--archive", "--parents", *present, str(source)], cwd=ROOT, check=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(source)]
    subprocess.run(build, check=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_every_module_and_every_c_source_of_every_room(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    rooms = {str(path.relative_to(ROOT)) for path in (ROOT / "tiramisu_py").rglob("*.py")}
    sources = (ROOT / "tiramisu_py" / "backends").rglob("*")
    targets = {str(path.relative_to(ROOT)) for path in sources if path.suffix in (".c", ".h")}
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "tiramisu_py").rglob("page_files/*")}
    assert targets
    assert {Path(name).name for name in pages} >= {"d3.min.js", "d3.LICENSE", "page.html"}
    assert (rooms | targets | pages | {"tiramisu_py/py.typed"}) - packed == set()


def test_the_wheel_holds_nothing_but_the_package(wheel: Path) -> None:
    top = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"tiramisu_py"}


def test_the_wheel_compiles_a_program_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", str(wheel)], check=True)
    run = subprocess.run(
        [str(python), "-I", "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "ok\n"


def test_the_changelog_has_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    assert "scripts/test" in (ROOT / ".ci" / "run").read_text()
    assert "\nscripts/test\n" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "script", [".ci/run", "scripts/demo", "scripts/test", "scripts/bench", "scripts/pictures", "scripts/reference"]
)
def test_a_script_is_executable_and_its_shell_parses(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    if path.read_text().startswith("#!/usr/bin/env bash"):
        subprocess.run(["bash", "-n", str(path)], check=True)
