"""The cache: shared by many processes, rebuilt where it is damaged, and never where others may write."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from tiramisu_py.errors import ToolchainError
from tiramisu_py.toolchain import Cache, open_cache
from tiramisu_py.toolchain.compilers.library import prepare
from tiramisu_py.toolchain.files import entries


def private(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    return folder


def writes(text: str, calls: list[str] | None = None):
    def build(folder: Path) -> list[Path]:
        if calls is not None:
            calls.append(text)
        (folder / "content").write_text(text)
        return []

    return build


def works(kernel) -> bool:
    x = np.arange(100, dtype=np.float32)
    return np.array_equal(kernel(2, x, x), 3 * x)


def test_the_second_compilation_takes_what_the_first_built(saxpy):
    first = saxpy.compile()
    made = first.library.stat().st_mtime_ns
    second = saxpy.compile()
    assert second.library == first.library and second.library.stat().st_mtime_ns == made and works(second)


@pytest.mark.parametrize(
    "options",
    [{"fast": ("contract",)}, {"target": "x86-64"}, {"sanitize": ("undefined",)}],
    ids=lambda o: next(iter(o)),
)
def test_other_options_are_other_entries(saxpy, options):
    if "target" in options and not saxpy.compile().recipe.toolchain.is_x86:
        pytest.skip("a processor of another kind")
    assert saxpy.compile(**options).library != saxpy.compile().library


def test_other_sources_are_another_entry(saxpy):
    changed = {**saxpy.sources, "saxpy.c": saxpy.sources["saxpy.c"].replace("a * x[i] + y[i]", "a * x[i] - y[i]")}
    other = replace(saxpy, sources=changed).compile()
    assert other.library != saxpy.compile().library
    x = np.ones(3, np.float32)
    assert other(2, x, x).tolist() == [1, 1, 1] and saxpy.compile()(2, x, x).tolist() == [3, 3, 3]


@pytest.mark.parametrize("damage", ["empty", "truncated", "changed", "missing", "manifest", "not a folder"])
def test_a_damaged_entry_is_built_again(saxpy, tmp_path, monkeypatch, damage):
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(private(tmp_path / "cache")))
    library = subprocess_library(saxpy)
    content = library.read_bytes()
    match damage:
        case "empty":
            library.write_bytes(b"")
        case "truncated":
            library.write_bytes(content[:1000])
        case "changed":
            library.write_bytes(content[:5000] + b"x" + content[5001:])
        case "missing":
            library.unlink()
        case "manifest":
            (library.parent / "manifest.json").write_text("[]")
        case _:
            library.parent.rename(tmp_path / "aside")
            library.parent.write_text("a file")
    kernel = saxpy.compile()
    assert kernel.library == library and works(kernel)


def subprocess_library(saxpy) -> Path:
    """Builds without loading, so that a damaged library is not one that this process has mapped."""
    cache = open_cache()
    recipe = prepare("saxpy", saxpy.emitted, cache)
    return cache.entry(recipe.key, recipe.build) / recipe.file_name


def test_a_header_of_the_user_that_changed_is_noticed(saxpy, tmp_path):
    header = tmp_path / "my weights.h"
    source = saxpy.sources["saxpy.c"].replace("a * x[i] + y[i]", "WEIGHT + 0 * a * x[i] * y[i]")
    with_header = replace(saxpy, sources={**saxpy.sources, "saxpy.c": f'#include "{header}"\n{source}'})
    for weight in (1, 2):
        header.write_text(f"#define WEIGHT {weight}\n")
        library = with_header.compile().library
        ran = subprocess.run(
            [sys.executable, "-c", LOADS, str(library)], capture_output=True, text=True, check=True
        )  # fmt: skip
        assert float(ran.stdout) == weight


LOADS = """
import ctypes, sys
z = (ctypes.c_float * 1)(-1)
x = (ctypes.c_float * 1)(1)
ctypes.CDLL(sys.argv[1]).saxpy(ctypes.c_int64(1), ctypes.c_float(1), x, x, z)
print(z[0])
"""

COMPILES = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from tests_of_build import plain, array, ty, N, Param
from tiramisu_py.ir import ArrayArgument
for turn in range(3):
    for number in range(3):
        z = ArrayArgument("z", ty.int64, (), is_input=False, is_output=True)
        kernel = plain(f"*z = N + {number};", z).compile()
        assert kernel(N=5) == 5 + number
print(kernel.library)
"""


def test_many_processes_share_a_cache(tmp_path, root):
    cache = private(tmp_path / "cache")
    (tmp_path / "tests_of_build.py").write_text((root / "tests" / "toolchain" / "conftest.py").read_text())
    environment = {**os.environ, "TIRAMISU_CACHE_DIR": str(cache), "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", COMPILES, str(tmp_path)]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    answers = [process.communicate(timeout=120) for process in running]
    assert all(process.returncode == 0 for process in running), answers
    assert len({said for said, _ in answers}) == 1, "all of them use one library"
    assert len(list((cache / "entries").iterdir())) == 3
    assert not [p for p in cache.iterdir() if p.name.startswith(("building-", "removing-"))]


def test_of_ranks_that_want_the_same_entry_one_builds_it(tmp_path):
    root, log = private(tmp_path / "cache"), tmp_path / "built"
    script = """
import sys, time
from pathlib import Path
from tiramisu_py.toolchain import Cache
def build(folder):
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    time.sleep(0.5)
    (folder / "content").write_text("right")
    return []
print("ready", flush=True)
sys.stdin.readline()
print(Cache(Path(sys.argv[1])).entry("key", build))
"""
    command = [sys.executable, "-c", script, str(root), str(log)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]  # fmt: skip
    for process in running:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    said = {process.communicate("go\n", timeout=120)[0] for process in running}
    assert said == {f"{root / 'entries' / 'key'}\n"}
    assert log.read_text() == "built\n"


def test_many_processes_repair_a_damaged_entry_at_the_same_time(tmp_path):
    root = private(tmp_path / "cache")
    script = """
import sys
from pathlib import Path
from tiramisu_py.toolchain import Cache
cache = Cache(Path(sys.argv[1]))
def build(folder):
    (folder / "content").write_text("right")
    return []
for turn in range(100):
    entry = cache.entry("key", build)
    try:
        (entry / "content").write_text("wrong")
    except FileNotFoundError:
        pass
    cache.entry("key", build)
"""
    running = [subprocess.Popen([sys.executable, "-c", script, str(root)], stderr=subprocess.PIPE) for _ in range(4)]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert all(process.returncode == 0 for process in running), said
    assert (Cache(root).entry("key", writes("right")) / "content").read_text() == "right"


def test_a_process_that_waited_for_long_builds_the_entry_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr("tiramisu_py.toolchain.compilers.cache.PATIENCE_SECONDS", 0.05)
    cache = Cache(private(tmp_path / "cache"))
    taken = cache.root / "building-key.lock"
    with FileLock(taken):
        assert (cache.entry("key", writes("x")) / "content").read_text() == "x"
        assert taken.exists(), "the lock is the other's"


@pytest.mark.parametrize("answer", ["ENOSYS", "ENOLCK", "ENOTSUP"])
def test_where_a_file_system_has_no_locks_nobody_waits(tmp_path, monkeypatch, answer):
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(getattr(errno, answer), "no locks here")

    monkeypatch.setattr("fcntl.flock", flock)
    cache = Cache(private(tmp_path / "cache"))
    assert (cache.entry("key", writes("x")) / "content").read_text() == "x"
    assert {path.name for path in cache.root.iterdir()} == {"entries", "scanned"}


def test_a_process_that_is_killed_while_it_builds_keeps_nobody_waiting(tmp_path):
    root = private(tmp_path / "cache")
    script = """
import os, signal, sys
from pathlib import Path
from tiramisu_py.toolchain import Cache
Cache(Path(sys.argv[1])).entry("key", lambda folder: os.kill(os.getpid(), signal.SIGKILL))
"""
    assert subprocess.run([sys.executable, "-c", script, str(root)], check=False).returncode == -signal.SIGKILL
    assert (root / "building-key.lock").exists()
    assert (Cache(root).entry("key", writes("x")) / "content").read_text() == "x"
    assert not (root / "building-key.lock").exists()


def test_a_build_that_fails_leaves_nothing_behind(tmp_path):
    cache = Cache(private(tmp_path / "cache"))

    def fails(folder: Path) -> list[Path]:
        (folder / "half").write_text("x")
        raise ToolchainError("no")

    with pytest.raises(ToolchainError, match="no"):
        cache.entry("key", fails)
    assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file()] == []
    assert (cache.entry("key", writes("x")) / "content").exists()


def test_the_least_recently_used_entries_are_evicted(tmp_path):
    cache = Cache(private(tmp_path / "cache"), maximum_bytes=3000)
    for number in range(6):
        entry = cache.entry(f"key{number}", writes("x" * 1000))
        os.utime(entry, (time.time() - 90000 + number, time.time() - 90000 + number))
    cache.entry("key0", writes("never called"))  # used again: now the youngest
    cache.evict()
    left = {path.name for path in (tmp_path / "cache" / "entries").iterdir()}
    assert "key0" in left and "key5" in left and not left & {"key1", "key2", "key3"}


def test_an_entry_in_use_is_not_evicted_however_large(tmp_path):
    cache = Cache(private(tmp_path / "cache"), maximum_bytes=10)
    entry = cache.entry("key", writes("x" * 1000))
    cache.evict()
    assert (entry / "content").exists()


def test_what_a_killed_process_left_is_removed_after_a_day(tmp_path):
    cache = Cache(private(tmp_path / "cache"))
    for name, age in (("building-old", 90000), ("building-new", 10)):
        left = cache.root / name
        left.mkdir()
        os.utime(left, (time.time() - age, time.time() - age))
    cache.evict()
    assert {p.name for p in cache.root.iterdir()} == {"building-new"}


def test_a_record_is_made_once_and_again_where_it_is_damaged(tmp_path):
    cache, made = Cache(private(tmp_path / "cache")), []

    def make() -> dict[str, int]:
        made.append(1)
        return {"x": 1}

    assert cache.recall("key", make) == cache.recall("key", make) == {"x": 1} and len(made) == 1
    path = cache.root / "records" / "key.json"
    for damaged in ("", "{}", "[1]", json.dumps({"record": {"x": 2}, "checksum": "0"})):
        path.write_text(damaged)
        assert cache.recall("key", make) == {"x": 1}
    assert len(made) == 5


# -- where it is


def test_folders_of_the_cache_are_for_their_owner_alone(saxpy, tmp_path, monkeypatch):
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(tmp_path / "new" / "cache"))
    monkeypatch.delenv("TIRAMISU_CACHE_BASE")
    before = os.umask(0)
    try:
        library = saxpy.compile().library
    finally:
        os.umask(before)
    kept = tmp_path / "new" / "cache"
    assert library.is_relative_to(kept)
    for folder in (kept, *(path for path in kept.rglob("*") if path.is_dir())):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def test_a_cache_that_others_may_write_is_refused_with_the_remedy(tmp_path, monkeypatch):
    shared = private(tmp_path / "shared")
    shared.chmod(0o777)
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(shared))
    with pytest.raises(ToolchainError, match=r"TIRAMISU_CACHE_DIR.*others may write.*chmod go-w"):
        open_cache()


def test_a_cache_of_another_user_is_refused(tmp_path, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root may give a folder away")
    foreign = private(tmp_path / "foreign")
    os.chown(foreign, 12345, 12345)
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(foreign))
    with pytest.raises(ToolchainError, match="belongs to user 12345"):
        open_cache()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("file", "file is not a folder"),
        ("file/cache", "file is not a folder"),
        ("dangling", "dangling is a link to no folder"),
        ("dangling/cache", "dangling is a link to no folder"),
        ("loop", "loop is a link to no folder"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_is_no_folder_in_the_place_of_the_cache_is_refused(tmp_path, monkeypatch, name, words):
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(tmp_path / name))
    with pytest.raises(ToolchainError, match=f"TIRAMISU_CACHE_DIR=.* cannot be the cache: .*{words}"):
        open_cache()


@pytest.mark.parametrize("name", ['it\'s "q" $HOME `x` ;', "a\nb größe", "a#b%c\\", "*?[x],b=c:d"])
def test_the_cache_may_have_any_name(saxpy, tmp_path, monkeypatch, name):
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(tmp_path / name))
    library = saxpy.compile().library
    assert library.parents[2] == tmp_path / name and saxpy.compile().library == library


@pytest.fixture
def defaults(tmp_path, monkeypatch):
    monkeypatch.delenv("TIRAMISU_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(private(tmp_path / "home")))
    monkeypatch.setattr("tempfile.tempdir", str(private(tmp_path / "tmp")))
    return tmp_path


def test_the_default_is_below_home_or_where_xdg_says(defaults, monkeypatch):
    assert open_cache().root == defaults / "home" / ".cache" / "tiramisu_py"
    monkeypatch.setenv("XDG_CACHE_HOME", str(defaults / "xdg"))
    assert open_cache().root == defaults / "xdg" / "tiramisu_py"


def test_without_a_home_the_cache_is_in_the_temporary_folder(defaults, monkeypatch):
    def nobody(user: int) -> None:
        raise KeyError(user)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert open_cache().root == defaults / "tmp" / f"tiramisu_py-{os.geteuid()}"


def test_a_home_that_cannot_be_used_is_passed_over_for_a_private_temporary_folder(defaults, monkeypatch):
    (defaults / "home" / ".cache").write_text("a file")
    found = open_cache().root
    assert found == defaults / "tmp" / f"tiramisu_py-{os.geteuid()}"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    found.chmod(0o777)  # someone else's idea of a cache
    last = open_cache()
    assert last.root.parent == defaults / "tmp" and stat.S_IMODE(last.root.stat().st_mode) == 0o700
    assert last.root != found


# -- a cache below


@pytest.fixture
def upon(tmp_path: Path) -> tuple[Cache, Path]:
    """A cache upon a base with the entry and the record "below"."""
    below = Cache(private(tmp_path / "below"))
    below.entry("below", writes("from below"))
    below.remember("below", {"x": 1})
    return Cache(private(tmp_path / "cache"), base=below.root), below.root


def everything(root: Path) -> dict[str, tuple[int, int]]:
    """What is in a folder, and when it was written or marked."""
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino) for path in [root, *root.rglob("*")]}


def test_what_is_in_the_base_is_not_built_nor_anything_written_there(upon):
    cache, base = upon
    before = everything(base)
    entry = cache.entry("below", writes("never called"))
    assert entry == base / "entries" / "below" and (entry / "content").read_text() == "from below"
    assert cache.recall("below", lambda: {"x": 2}) == {"x": 1}
    assert (cache.entry("own", writes("own")) / "content").read_text() == "own"
    assert cache.recall("own", lambda: {"x": 3}) == {"x": 3}
    replace(cache, maximum_bytes=0).evict()
    assert everything(base) == before
    assert {path.name for path in (cache.root / "entries").iterdir()} == {"own"}


def test_what_was_built_in_the_cache_itself_comes_before_the_base(upon):
    cache, _ = upon
    own = replace(cache, base=None).entry("below", writes("own"))
    assert cache.entry("below", writes("never called")) == own


@pytest.mark.parametrize("damage", ["changed", "open to others", "missing"])
def test_an_entry_of_the_base_that_is_not_intact_is_built_in_the_cache(upon, damage):
    cache, base = upon
    content = base / "entries" / "below" / "content"
    match damage:
        case "changed":
            content.write_text("from elsewhere")
        case "open to others":
            content.chmod(0o666)
        case _:
            content.unlink()
    before = everything(base)
    entry = cache.entry("below", writes("own"))
    assert entry.parent.parent == cache.root and (entry / "content").read_text() == "own"
    assert everything(base) == before


def test_a_record_of_the_base_that_others_could_write_is_not_believed(upon):
    cache, base = upon
    (base / "records" / "below.json").chmod(0o666)
    assert cache.recall("below", lambda: {"x": 2}) == {"x": 2}


def test_kernels_of_a_base_are_loaded_from_there(saxpy, tmp_path, monkeypatch):
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(tmp_path / "site"))
    built = saxpy.compile().library
    monkeypatch.setenv("TIRAMISU_CACHE_BASE", str(tmp_path / "site"))
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(tmp_path / "mine"))
    kernel = saxpy.compile()
    assert kernel.library == built and works(kernel)
    assert not (tmp_path / "mine" / "entries").exists()


def test_a_base_that_is_the_cache_itself_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("TIRAMISU_CACHE_DIR", str(tmp_path / "one"))
    monkeypatch.delenv("TIRAMISU_CACHE_BASE")
    root = open_cache().root
    monkeypatch.setenv("TIRAMISU_CACHE_BASE", str(root))
    assert open_cache() == Cache(root)


@pytest.mark.parametrize("part", ["", "entries", "records"])
def test_a_base_that_others_may_write_is_refused_with_the_remedy(upon, monkeypatch, part):
    (upon[1] / part).chmod(0o777)
    monkeypatch.setenv("TIRAMISU_CACHE_BASE", str(upon[1]))
    with pytest.raises(ToolchainError, match=r"TIRAMISU_CACHE_BASE.*others may write.*chmod go-w"):
        open_cache()


def test_a_base_that_is_not_there_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("TIRAMISU_CACHE_BASE", str(tmp_path / "nowhere"))
    with pytest.raises(ToolchainError, match=r"TIRAMISU_CACHE_BASE=.*nowhere cannot be a cache to read from: No such"):
        open_cache()


def test_a_base_may_belong_to_root_or_to_the_owner_of_this_package_and_to_no_other_user(upon, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root may give a folder away")
    cache, base = upon
    monkeypatch.setenv("TIRAMISU_CACHE_BASE", str(base))
    for path in [base, *base.rglob("*")]:
        os.chown(path, 12345, 12345)
    with pytest.raises(ToolchainError, match=r"belongs to user 12345.*yours, root's, or of the owner of this package"):
        open_cache()
    assert cache.entry("below", writes("own")).parent.parent == cache.root
    monkeypatch.setattr("tiramisu_py.toolchain.compilers.cache.trusted_owners", lambda: frozenset({0, 12345}))
    assert open_cache().base == base
    assert Cache(private(base.parent / "other"), base=base).entry("below", writes("own")).parent.parent == base


# -- how often it looks


def test_the_cache_is_searched_for_what_to_evict_once_in_a_while(tmp_path, monkeypatch):
    cache, looks = Cache(private(tmp_path / "cache")), []
    monkeypatch.setattr(Cache, "evict", lambda self: looks.append(1))
    for number in range(5):
        cache.entry(f"key{number}", writes("x"))
    assert len(looks) == 1
    os.utime(cache.root / "scanned", (time.time() - 61, time.time() - 61))
    cache.entry("key5", writes("x"))
    assert len(looks) == 2


def test_a_file_is_read_once_while_it_stays_as_it_is(tmp_path, monkeypatch):
    cache, read = Cache(private(tmp_path / "cache")), []
    entry = cache.entry("key", writes("x"))
    monkeypatch.setattr(entries, "_SETTLED_SECONDS", 0.0)
    sha256 = hashlib.sha256
    monkeypatch.setattr(entries.hashlib, "sha256", lambda content: (read.append(content), sha256(content))[1])
    for _ in range(3):
        assert cache.entry("key", writes("never called")) == entry
    assert read == [b"x"]
    (entry / "content").write_text("y")
    assert (cache.entry("key", writes("z")) / "content").read_text() == "z"
