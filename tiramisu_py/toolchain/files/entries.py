"""Entries of the cache on disk: complete, unchanged, and written by nobody but those who are trusted."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import stat
import tempfile
import time
from collections.abc import Collection, Iterable
from pathlib import Path

_MANIFEST = "manifest.json"
#: A file that changed less long ago than this may change again without another time of change, on file systems and
#: servers whose clocks are coarse or late.
_SETTLED_SECONDS = 10.0

_log = logging.getLogger(__name__)


def trusted_owners() -> frozenset[int]:
    """Who, beside this user, may own a cache that is only read: root, and who owns this package, whose code runs here
    anyway.
    """
    try:
        return frozenset({0, Path(__file__).stat().st_uid})
    except OSError:  # in an archive, or removed since
        return frozenset({0})


def foreign_hand(folder: Path, trusted: Collection[int] = ()) -> str:
    """The reason why others than this user and the `trusted` ones could write to a folder; empty if there is none."""
    try:
        found = folder.lstat()
    except OSError as error:
        return f"{error.strerror or error}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder"
    if found.st_uid != os.geteuid() and found.st_uid not in trusted:
        advice = "it must be yours, root's, or of the owner of this package" if trusted else "use a folder of your own"
        return f"{folder} belongs to user {found.st_uid}, who could replace compiled code; {advice}"
    if found.st_mode & 0o022:
        return f"others may write to {folder}, and so replace compiled code; run: chmod go-w {folder}"
    return ""


def is_private_file(path: Path, trusted: Collection[int] = ()) -> bool:
    """Whether a path is a file, not a link, that only this user or a `trusted` one can write. Raises `OSError` if it
    does not exist.
    """
    found = path.lstat()
    owned = found.st_uid == os.geteuid() or found.st_uid in trusted
    return stat.S_ISREG(found.st_mode) and owned and not found.st_mode & 0o022


def write_manifest(folder: Path, outside: Iterable[Path]) -> None:
    """Writes the checksums of an entry's files, and of the files `outside` that it depends on."""
    for path in folder.iterdir():  # whatever the umask is
        path.chmod(path.stat().st_mode & ~0o022)
    files = {path.name: _checksum(path) for path in sorted(folder.iterdir())}
    headers = {str(path): _checksum(path) for path in outside}
    (folder / _MANIFEST).write_text(json.dumps({"files": files, "outside": headers}), encoding="utf-8")
    (folder / _MANIFEST).chmod(0o600)


def is_intact(folder: Path, trusted: Collection[int] = ()) -> bool:
    """Whether an entry is complete and unchanged, and nobody but this user and the `trusted` ones could write it."""
    try:
        if foreign_hand(folder, trusted) or not is_private_file(folder / _MANIFEST, trusted):
            return False
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        own = [os.path.basename(name) == name and is_private_file(folder / name, trusted) for name in manifest["files"]]
        if not own or not all(own):
            return False
        inside = all(_checksum(folder / name) == expected for name, expected in manifest["files"].items())
        return inside and all(_checksum(Path(name)) == expected for name, expected in manifest["outside"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _checksum(path: Path) -> str:
    """The checksum of a file: what it was, if the file has not been touched since."""
    found = path.stat()
    if time.time() - found.st_ctime < _SETTLED_SECONDS:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return _settled(str(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@functools.lru_cache(maxsize=256)
def _settled(path: str, *_state: int) -> str:
    """The checksum of a file in a state that the system would not give it again."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def mark_used(folder: Path) -> None:
    """Makes an entry the most recently used one."""
    try:
        os.utime(folder)
    except OSError as error:
        _log.debug("%s is not marked as used: %s", folder, error)


def last_use(folder: Path) -> float:
    """When a folder was made, or marked; the beginning of time if it is gone."""
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def folders_in(root: Path) -> list[Path]:
    """The folders in a folder; none if it is gone."""
    try:
        return [Path(found.path) for found in os.scandir(root) if found.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def bytes_of(folder: Path) -> int:
    """The size of the files in a folder; 0 if it is gone."""
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
