"""Commands as files of older versions hold them: by other names, and with other arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tiramisu_py.program.command import Command
from tiramisu_py.program.storage import Memory
from tiramisu_py.schedule.locality.copy_values import CopyValues


def _cache(of: Any, copied: Any, level: Any, iterators: Any, **options: Any) -> Command:
    into, name = options.pop("memory", Memory.HOST), options.pop("name", None)
    called = name if options.get("layout") is None else name or f"{copied.source}_cache"
    return CopyValues(of, copied, iterators, at=level, into=into, name=called, **options)


def _pack(of: Any, copied: Any, iterators: Any, layout: Any, **options: Any) -> Command:
    at = {"at": options.pop("level")} if "level" in options else {}
    return CopyValues(of, copied, iterators, layout=layout, **at, **options)


def _shared(of: Any, copied: Any, level: Any, iterators: Any, **options: Any) -> Command:
    return CopyValues(of, copied, iterators, at=level, into=Memory.SHARED, **options)


def _local(of: Any, copied: Any, level: Any, iterators: Any, **options: Any) -> Command:
    return CopyValues(of, copied, iterators, at=level, into=Memory.REGISTER, **options)


#: What makes the command of now, by the name that it has in older files.
OLDER: Mapping[str, Callable[..., Command]] = {
    "cache_at": _cache,
    "pack": _pack,
    "cache_shared": _shared,
    "cache_local": _local,
}
