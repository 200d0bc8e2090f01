"""What was compiled once is not compiled again, whatever else changes; and then no process is started."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

import tiramisu_py as tm
from tiramisu_py.backends.c import Emitted
from tiramisu_py.toolchain import Cache, find_toolchain, open_cache
from tiramisu_py.toolchain.compilers import simulator
from tiramisu_py.toolchain.compilers.tools import answer_behind
from tiramisu_py.toolchain.files.tool_files import file_state

#: Programs of the README: for cores, for a simulated GPU, for ranks. Prints how many processes each compilation starts.
SCRIPT = """
import json, sys
import tiramisu_py as tm

STARTING = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"}
started = []
sys.addaudithook(lambda event, arguments: started.append(str(arguments[:2])) if event in STARTING else None)
R, C = tm.params("R C")
r, c, r0, c0, r1, c1 = tm.iters("r c r0 c0 r1 c1")

def blur(rows):
    f = tm.Function("blur", params=[C] if rows is not R else [R, C], assume="C >= 1")
    image = f.input("image", tm.float32, [rows + 2, C + 2])
    bx = f.computation("bx", {r: rows + 2, c: C}, (image[r, c] + image[r, c + 1] + image[r, c + 2]) / 3)
    by = f.computation("by", {r: rows, c: C}, (bx[r, c] + bx[r + 1, c] + bx[r + 2, c]) / 3)
    f.outputs(by)
    return f, image, bx, by

def cores():
    f, image, bx, by = blur(R)
    by.tile(r, c, 32, 256, r0, c0, r1, c1)
    by.parallelize(r0)
    by.vectorize(c1, 16)
    bx.compute_at(by, c0)
    bx.vectorize(c, 16)
    f.compile()

def simulator():
    f, image, bx, by = blur(R)
    for stage in (bx, by):
        stage.gpu_tile(r, c, 4, 64, r0, c0, r1, c1)
    f.derive_transfers()
    f.compile(device="simulator")

def ranks():
    f, image, bx, by = blur(480)
    for array in (image, by):
        array.distribute_array([r, c], rank=r // 121)
    for stage in (bx, by):
        stage.split(r, 121, r0, r1)
        stage.tag_distribute(r0)
    f.derive_transfers()
    f.compile()

counts = {}
for name in sys.argv[1:]:
    started.clear()
    {"cores": cores, "simulator": simulator, "ranks": ranks}[name]()
    counts[name] = list(started)
print(json.dumps(counts))
"""


@pytest.fixture(scope="module")
def programs() -> list[str]:
    """The programs that this machine can compile."""
    has_mpi = importlib.util.find_spec("mpi4py") and (Path(sys.executable).with_name("mpicc").exists())
    return ["cores", *(["simulator"] if shutil.which("g++") else []), *(["ranks"] if has_mpi else [])]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(Path(tm.__file__).parent, folder / "tiramisu_py", symlinks=False)
    return folder


class Copy:
    """A copy of the package with a cache of its own."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache

    def started(self, *programs: str) -> dict[str, list[str]]:
        """The processes that a new process starts to compile each program."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "TIRAMISU_CACHE_DIR": str(self.cache)}
        environment.pop("TIRAMISU_CACHE_BASE", None)
        command = [sys.executable, "-c", SCRIPT, *programs]
        done = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    @contextmanager
    def changed(self, file: str, old: str, new: str) -> Iterator[None]:
        """A file of the package with another text, until the context is left."""
        path = self.folder / "tiramisu_py" / file
        before = path.read_text()
        assert re.search(old, before), file
        path.write_text(re.sub(old, new, before, count=1))
        yield
        path.write_text(before)


@pytest.fixture(scope="module")
def copy(package: Path, programs: list[str], tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The copy, which has compiled each program once."""
    cache = tmp_path_factory.mktemp("cache")
    cache.chmod(0o700)
    made = Copy(package, cache)
    assert all(made.started(*programs).values())
    return made


def require_compilers() -> None:
    """A script before a compiler is asked once in each process."""
    for name in ("gcc", "g++"):
        path = shutil.which(name)
        if path and answer_behind([path], file_state(path)):
            pytest.skip(f"{name} is a script, or stands before another compiler")


def test_nothing_is_built_nor_any_process_started_after_a_docstring_has_changed(
    copy: Copy, programs: list[str]
) -> None:
    require_compilers()
    first_docstring = r'^"""'
    with (
        copy.changed("recipes/__init__.py", first_docstring, '"""Changed. '),
        copy.changed("toolchain/compilers/library.py", first_docstring, '"""Changed. '),
        copy.changed("backends/c/emitter.py", first_docstring, '"""Changed. '),
    ):
        assert copy.started(*programs) == {name: [] for name in programs}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("backends/c/tm_runtime.h", r"\A", "/* changed */\n"),
        ("toolchain/compilers/flags.py", r'OPTIMISED = \("-O3",\)', 'OPTIMISED = ("-O2",)'),
        ("toolchain/compilers/cache.py", r"PROCEDURE = (\d+)", r"PROCEDURE = 1\1"),
    ],
    ids=["an emitted header", "a flag of the compiler", "the procedure"],
)
def test_what_determines_the_library_builds_it_anew(copy: Copy, file: str, old: str, new: str) -> None:
    with copy.changed(file, old, new):
        assert copy.started("cores")["cores"]


def test_a_header_of_simulated_kernels_builds_them_anew(copy: Copy, programs: list[str]) -> None:
    if "simulator" not in programs:
        pytest.skip("the simulator's kernels need g++")
    with copy.changed("backends/cuda/simulator/tm_simulated.h", r"\Z", "/* changed */\n"):
        assert copy.started("simulator")["simulator"]


def test_libraries_to_link_with_are_part_of_the_key(saxpy):
    recipe = saxpy.compile().recipe
    linked = replace(recipe, sources=Emitted(saxpy.sources, "", ("-lpthread",)))
    assert linked.flags == recipe.flags and linked.key != recipe.key


def asked(monkeypatch: pytest.MonkeyPatch, use: Callable[[Cache], object]) -> list[str]:
    """The keys that something asks the cache for; nothing is built."""
    keys: list[str] = []
    monkeypatch.setattr(Cache, "entry", lambda self, key, build: (keys.append(key), Path("nowhere"))[1])
    with suppress(OSError):  # of what would be loaded
        use(open_cache())
    return keys


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SIMULATOR_FLAGS", ("-O9",)),
        ("SIMULATOR_LIBRARIES", ("-lown",)),
        ("SIMULATOR_SOURCES", (Path(__file__),)),
        ("SIMULATOR_HEADERS", (Path(__file__),)),
    ],
)
def test_what_the_simulator_is_made_of_is_part_of_its_key(monkeypatch, name, value):
    before = asked(monkeypatch, simulator.load_simulator)
    monkeypatch.setattr(simulator, name, value)
    after = asked(monkeypatch, simulator.load_simulator)
    assert len(before) == len(after) == 1 and before != after


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPTIMISED", ("-O9",)),
        ("KERNEL_LIBRARIES", ("-lown",)),
        ("KERNEL_HEADERS", (Path(__file__),)),
        ("SIMULATED_HEADERS", (Path(__file__),)),
    ],
)
def test_what_simulated_kernels_are_made_of_is_part_of_their_key(monkeypatch, name, value):
    def use(cache: Cache) -> object:
        return simulator.simulated_kernels(cache, "f", {"f.cu": ""}, (), checked=False)

    if shutil.which("g++") is None:
        pytest.skip("the simulator's kernels need g++")
    before = asked(monkeypatch, use)
    monkeypatch.setattr(simulator, name, value)
    after = asked(monkeypatch, use)
    assert len(before) == len(after) == 1 and before != after


def test_a_function_that_is_compiled_again_starts_no_process(saxpy, monkeypatch):
    saxpy.compile()
    require_compilers()

    def refused(*given: object, **more: object) -> None:
        raise AssertionError(f"{given} was started")

    monkeypatch.setattr(subprocess, "Popen", refused)
    assert find_toolchain(open_cache()).family in ("gcc", "clang")
    saxpy.compile()
