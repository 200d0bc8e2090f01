"""The cache on disk: libraries from the same sources, by the same compiler, for the same processor, are reused.

An entry is a folder named by the key of its content. It is made in a private folder and renamed into place, so that any
number of processes may share the cache. They wait for each other only to save work: if several ranks need the same
entry, one builds it. Files whose checksums do not match are built again.

A cache may have another one below it, its base, which is only read: what is there, and intact, is not built.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from tiramisu_py.errors import ToolchainError
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.files.entries import (
    bytes_of,
    folders_in,
    foreign_hand,
    is_intact,
    is_private_file,
    last_use,
    mark_used,
    replace_file,
    trusted_owners,
    write_manifest,
)

#: The procedure of building. All keys of what is built contain it, beside the texts, the compiler and its flags: raise
#: it when a build makes something else from these (other steps, another order, other files in an entry), and for
#: nothing else, since everything is then built anew.
PROCEDURE = 1

MAXIMUM_BYTES = 1 << 30
#: An entry used more recently than this is not evicted: another process may be about to load it.
GRACE_SECONDS = 3600.0
ABANDONED_SECONDS = 86400.0
#: A process that has built something looks for what to evict unless one has looked so recently: to look takes as long
#: as there are entries.
SCAN_SECONDS = 60.0
#: The time for which a process waits for another that builds the same entry; then it builds the entry itself.
PATIENCE_SECONDS = 60.0
_ATTEMPTS = 10
_SCANNED = "scanned"
#: What a file system without locks answers.
WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cache:
    """A folder that only this user can write, with built entries and small records.

    `base` is the folder of another cache, which is read and never written: no entry is built, marked as used or evicted
    there. `temporary` keeps the folder of a temporary cache alive as long as this object.
    """

    root: Path
    maximum_bytes: int = MAXIMUM_BYTES
    temporary: tempfile.TemporaryDirectory[str] | None = None
    base: Path | None = None

    def entry(self, key: str, build: Callable[[Path], Iterable[Path]]) -> Path:
        """The folder of the entry `key`; if there is no intact one, nor in the base, ``build(folder)`` fills it first.

        `build` returns the files outside the folder that the entry depends on: when they change, it is built again.
        Raises `ToolchainError` if the folder cannot be written, and the exceptions of `build`.
        """
        final = self.root / "entries" / key
        if is_intact(final):
            mark_used(final)
            return final
        below = self.base / "entries" / key if self.base else None
        if below and is_intact(below, trusted_owners()):
            return below
        try:
            with self._turn(key):
                return final if is_intact(final) else self._built(final, build)
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
            write_manifest(work, outside)
            published = self._publish(work, final)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        self._evict_at_times()
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
            if is_intact(final):  # another process was first
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

    def _evict_at_times(self) -> None:
        """Evicts, unless a process that shares the cache has done so a moment ago."""
        scanned = self.root / _SCANNED
        try:
            if time.time() - last_use(scanned) < SCAN_SECONDS:
                return
            scanned.touch(mode=0o600)
        except OSError as error:
            _log.debug("%s is not written: %s", scanned, error)
        self.evict()

    def evict(self) -> None:
        """Removes the least recently used entries beyond `maximum_bytes`, and leftovers of killed processes."""
        now = time.time()
        entries = sorted((last_use(path), path) for path in folders_in(self.root / "entries"))
        excess = sum(bytes_of(path) for _, path in entries) - self.maximum_bytes
        for used, path in entries:
            if excess <= 0 or now - used < GRACE_SECONDS:
                break
            excess -= bytes_of(path)
            self._discard(path)
        for path in folders_in(self.root):
            if path.name.startswith(("building-", "removing-")) and now - last_use(path) > ABANDONED_SECONDS:
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
        """The record `key` on disk, or that of the base; None unless it is intact, and nobody else can write it."""
        own = _recorded(self.root, key)
        return _recorded(self.base, key, trusted_owners()) if own is None and self.base else own

    def remember(self, key: str, record: Mapping[str, Any]) -> None:
        """Writes the record `key`, unless the folder cannot be written."""
        path = _record(self.root, key)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            replace_file(path, json.dumps({"record": record, "checksum": digest(record)}).encode())
        except OSError as error:
            _log.debug("%s is not remembered: %s", path, error)


def _record(root: Path, key: str) -> Path:
    return root / "records" / f"{key}.json"


def _recorded(root: Path, key: str, trusted: Collection[int] = ()) -> dict[str, Any] | None:
    path = _record(root, key)
    try:
        stored = json.loads(path.read_text(encoding="utf-8")) if is_private_file(path, trusted) else {}
        if stored["checksum"] == digest(stored["record"]):
            return dict(stored["record"])
    except (OSError, ValueError, KeyError, TypeError):
        _log.debug("no record %s", path)
    return None


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


# -- where the cache is


def open_cache() -> Cache:
    """The cache of this user: ``$TIRAMISU_CACHE_DIR``, ``$XDG_CACHE_HOME/tiramisu_py`` or ``~/.cache/tiramisu_py``,
    upon that of ``$TIRAMISU_CACHE_BASE`` if there is one.

    A folder that others can write is never used: if the user named it, `ToolchainError` is raised; instead of a default
    one, a private folder in the temporary directory is used. A base may also belong to root, or to the owner of this
    package.
    """
    cache = _own_cache()
    base = _base()
    return cache if base is None or base == cache.root else replace(cache, base=base)


def _base() -> Path | None:
    """The folder of the cache that is only read; None if the environment names none. Raises `ToolchainError`."""
    named = os.environ.get("TIRAMISU_CACHE_BASE")
    if not named:
        return None
    root = Path(os.path.expanduser(named))
    try:
        root = root.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        fault = getattr(error, "strerror", None) or str(error)
    else:
        fault = _foreign_part(root, trusted_owners())
    if fault:
        raise ToolchainError(f"TIRAMISU_CACHE_BASE={named} cannot be a cache to read from: {fault}")
    return root


def _own_cache() -> Cache:
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
    fault = _foreign_part(root)
    if fault:
        return root, fault
    return root, "" if os.access(root, os.W_OK | os.X_OK) else "it is not writable"


def _foreign_part(root: Path, trusted: Collection[int] = ()) -> str:
    """The reason why others could write to a cache; empty if there is none."""
    parts = (root, *(root / name for name in ("entries", "records") if os.path.lexists(root / name)))
    return next(filter(None, (foreign_hand(part, trusted) for part in parts)), "")


# -- keys


def digest(content: Any) -> str:
    """The key of any content that JSON can represent."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def build_key(kind: str, *content: Any) -> str:
    """The key of something that is built: of all that determines it, and of the procedure."""
    return digest([kind, PROCEDURE, *content])
