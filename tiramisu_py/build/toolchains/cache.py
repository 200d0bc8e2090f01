"""The cache on disk: libraries from the same sources, by the same compiler, for the same processor, are reused.

An entry is a folder named by the key of its content. It is made in a private folder and renamed into place, so that any
number of processes may share the cache. They wait for each other only to save work: if several ranks need the same
entry, one builds it. Files whose checksums do not match are built again.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from tiramisu_py.errors import ToolchainError
from tiramisu_py.records import dataclass

MAXIMUM_BYTES = 1 << 30
#: An entry used more recently than this is not evicted: another process may be about to load it.
GRACE_SECONDS = 3600.0
ABANDONED_SECONDS = 86400.0
#: The time for which a process waits for another that builds the same entry; then it builds the entry itself.
PATIENCE_SECONDS = 60.0
_MANIFEST = "manifest.json"
_ATTEMPTS = 10
#: What a file system without locks answers.
WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cache:
    """A folder that only this user can write, with built entries and small records.

    `temporary` keeps the folder of a temporary cache alive as long as this object.
    """

    root: Path
    maximum_bytes: int = MAXIMUM_BYTES
    temporary: tempfile.TemporaryDirectory[str] | None = None

    def entry(self, key: str, build: Callable[[Path], Iterable[Path]]) -> Path:
        """The folder of the entry `key`; if there is no intact one, ``build(folder)`` fills it first.

        `build` returns the files outside the folder that the entry depends on: when they change, it is built again.
        Raises `ToolchainError` if the folder cannot be written, and the exceptions of `build`.
        """
        final = self.root / "entries" / key
        if _is_intact(final):
            _mark_used(final)
            return final
        try:
            with self._turn(key):
                return final if _is_intact(final) else self._built(final, build)
        except OSError as error:
            advice = "allow more: ulimit -n 1024" if error.errno == errno.EMFILE else "set TIRAMISU_CACHE_DIR"
            fault = f"the cache {self.root} cannot be written ({error}); {advice}"
            raise ToolchainError(fault) from error

    @contextmanager
    def _turn(self, key: str) -> Iterator[None]:
        """Waits while another process, or thread, builds the same entry."""
        path = self.root / f"building-{key}.lock"
        lock = FileLock(path, PATIENCE_SECONDS, mode=0o600, poll_interval=0.005, fallback_to_soft=False)
        mine = _acquired(lock)
        try:
            yield
        finally:
            if mine:  # before it is released: who waits for a file that is gone makes a new one
                path.unlink(missing_ok=True)
            lock.release()

    def _built(self, final: Path, build: Callable[[Path], Iterable[Path]]) -> Path:
        final.parent.mkdir(mode=0o700, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="building-", dir=self.root))
        try:
            outside = build(work)
            _write_manifest(work, outside)
            published = self._publish(work, final)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        self.evict()
        return published

    def _publish(self, work: Path, final: Path) -> Path:
        """Renames a finished folder into place, or to a place of its own if other processes keep damaging that one."""
        for _ in range(_ATTEMPTS):
            try:
                os.rename(work, final)
                return final
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
            if _is_intact(final):  # another process was first
                return final
            self._discard(final)
        beside = final.with_name(f"{final.name}-{work.name}")
        os.rename(work, beside)
        return beside

    def _discard(self, entry: Path) -> None:
        """Removes an entry, atomically for other processes."""
        aside = Path(tempfile.mkdtemp(prefix="removing-", dir=self.root))
        try:
            os.rename(entry, aside / "entry")
        except FileNotFoundError:
            _log.debug("another process removed %s", entry)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def evict(self) -> None:
        """Removes the least recently used entries beyond `maximum_bytes`, and leftovers of killed processes."""
        now = time.time()
        entries = sorted((_last_use(path), path) for path in _folders(self.root / "entries"))
        excess = sum(_bytes_of(path) for _, path in entries) - self.maximum_bytes
        for used, path in entries:
            if excess <= 0 or now - used < GRACE_SECONDS:
                break
            excess -= _bytes_of(path)
            self._discard(path)
        for path in _folders(self.root):
            if path.name.startswith(("building-", "removing-")) and now - _last_use(path) > ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)

    def recall(
        self,
        key: str,
        make: Callable[[], Mapping[str, Any]],
        lasting: Callable[[Mapping[str, Any]], bool] = lambda record: not record.get("fault"),
    ) -> dict[str, Any]:
        """The small record `key`, from disk if it is intact, else from ``make()``. A record that is not `lasting` (by
        default, a fault) is not stored, but computed again each time.
        """
        stored = self.known(key)
        if stored is not None and lasting(stored):
            return stored
        record = dict(make())
        if lasting(record):
            self.remember(key, record)
        return record

    def known(self, key: str) -> dict[str, Any] | None:
        """The record `key` on disk; None unless it is intact, and only this user can write it."""
        path = self._record(key)
        try:
            stored = json.loads(path.read_text(encoding="utf-8")) if is_private_file(path) else {}
            if stored["checksum"] == digest(stored["record"]):
                return dict(stored["record"])
        except (OSError, ValueError, KeyError, TypeError):
            _log.debug("no record %s", path)
        return None

    def _record(self, key: str) -> Path:
        return self.root / "records" / f"{key}.json"

    def remember(self, key: str, record: Mapping[str, Any]) -> None:
        """Writes the record `key`, unless the folder cannot be written."""
        path = self._record(key)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            replace_file(path, json.dumps({"record": record, "checksum": digest(record)}).encode())
        except OSError as error:
            _log.debug("%s is not remembered: %s", path, error)


# -- where the cache is


def open_cache() -> Cache:
    """The cache of this user: ``$TIRAMISU_CACHE_DIR``, ``$XDG_CACHE_HOME/tiramisu_py`` or ``~/.cache/tiramisu_py``.

    A folder that others can write is never used: if the user named it, `ToolchainError` is raised; instead of a default
    one, a private folder in the temporary directory is used.
    """
    named = os.environ.get("TIRAMISU_CACHE_DIR")
    if named:
        root, fault = _prepared(Path(os.path.expanduser(named)))
        if fault:
            raise ToolchainError(f"TIRAMISU_CACHE_DIR={named} cannot be the cache: {fault}")
        return Cache(root)
    for default in _default_roots():
        root, fault = _prepared(default)
        if not fault:
            return Cache(root)
        _log.warning("the cache %s is not used: %s", default, fault)
    temporary = tempfile.TemporaryDirectory(prefix="tiramisu_py-")
    return Cache(Path(temporary.name), temporary=temporary)


def _default_roots() -> list[Path]:
    """The platform's folder for caches, if there is a home, and one in the temporary directory."""
    roots = [Path(tempfile.gettempdir()) / f"tiramisu_py-{os.geteuid()}"]
    with suppress(RuntimeError):  # no home
        roots.insert(0, user_cache_path("tiramisu_py"))
    return [root for root in roots if root.is_absolute()]


def _prepared(root: Path) -> tuple[Path, str]:
    """The folder, created if it is missing, and the reason why it cannot be used (empty if it can)."""
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
        root = root.resolve(strict=True)
    except FileExistsError:
        found = root if os.path.lexists(root) else root.parent
        return root, f"{found} is {'a link to no folder' if found.is_symlink() else 'not a folder'}"
    except OSError as error:
        return root, f"{error.strerror or error}"
    for folder in (root, *(root / name for name in ("entries", "records") if os.path.lexists(root / name))):
        fault = foreign_hand(folder)
        if fault:
            return root, fault
    return root, "" if os.access(root, os.W_OK | os.X_OK) else "it is not writable"


# -- entries on disk


def foreign_hand(folder: Path) -> str:
    """The reason why a folder is not writable by this user alone; empty if it is."""
    try:
        found = folder.lstat()
    except OSError as error:
        return f"{error.strerror or error}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder"
    if found.st_uid != os.geteuid():
        return f"{folder} belongs to user {found.st_uid}, who could replace compiled code; use a folder of your own"
    if found.st_mode & 0o022:
        return f"others may write to {folder}, and so replace compiled code; run: chmod go-w {folder}"
    return ""


def is_private_file(path: Path) -> bool:
    """Whether a path is a file, not a link, that only this user can write. Raises `OSError` if it does not exist."""
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _acquired(lock: FileLock) -> bool:
    """Takes a lock; false if another still has it when patience ends. Without locks in a file system nobody waits."""
    try:
        lock.acquire()
    except Timeout:
        return False
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
    return True


def _write_manifest(folder: Path, outside: Iterable[Path]) -> None:
    for path in folder.iterdir():  # whatever the umask is
        path.chmod(path.stat().st_mode & ~0o022)
    files = {path.name: _checksum(path) for path in sorted(folder.iterdir())}
    headers = {str(path): _checksum(path) for path in outside}
    (folder / _MANIFEST).write_text(json.dumps({"files": files, "outside": headers}), encoding="utf-8")
    (folder / _MANIFEST).chmod(0o600)


def _is_intact(folder: Path) -> bool:
    """Whether an entry is complete and unchanged, and no other user could have written it."""
    try:
        if foreign_hand(folder) or not is_private_file(folder / _MANIFEST):
            return False
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        own = [os.path.basename(name) == name and is_private_file(folder / name) for name in manifest["files"]]
        if not own or not all(own):
            return False
        inside = all(_checksum(folder / name) == expected for name, expected in manifest["files"].items())
        return inside and all(_checksum(Path(name)) == expected for name, expected in manifest["outside"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _mark_used(folder: Path) -> None:
    try:
        os.utime(folder)
    except OSError as error:
        _log.debug("%s is not marked as used: %s", folder, error)


def _last_use(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _folders(root: Path) -> list[Path]:
    try:
        return [Path(found.path) for found in os.scandir(root) if found.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _bytes_of(folder: Path) -> int:
    try:
        return sum(found.stat(follow_symlinks=False).st_size for found in os.scandir(folder))
    except OSError:
        return 0


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Writes a file in one step: a reader sees the old content or the new, and a loaded library keeps its own."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        os.chmod(name, mode)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


# -- keys


def digest(content: Any) -> str:
    """The key of any content that JSON can represent."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@functools.cache
def package_digest() -> str:
    """The key of this package's own sources: another version of the compiler builds its own entries. A process has
    loaded one version.
    """
    root = Path(__file__).resolve().parent.parent.parent
    total = hashlib.sha256()
    for folder, names, files in os.walk(root, followlinks=True):
        names.sort()
        for name in sorted(files):
            if name.endswith((".py", ".h", ".c", ".cu")):
                path = Path(folder, name)
                total.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()
