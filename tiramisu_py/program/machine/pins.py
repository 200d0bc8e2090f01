"""How the threads of a compiled function are bound to cpus while it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tiramisu_py.errors import ArgumentError
from tiramisu_py.records import dataclass

_MOST = 4096  # TM_CPUS of tm_threads.h
_NODE = re.compile(r"node:([0-9]{1,4})")


@dataclass(frozen=True)
class Pin:
    """How threads are pinned: `policy` is "close", "spread", "node" or "list" (of `cpus`).

    For "node", `node` is its number, or None for the node of the rank's number on its machine.
    """

    policy: str
    cpus: tuple[int, ...] = ()
    node: int | None = None

    @property
    def takes_turns(self) -> bool:
        """Whether the ranks of a machine are bound to its nodes cyclically."""
        return self.policy == "node" and self.node is None

    def __str__(self) -> str:
        if self.policy == "list":
            return f"the cpus {', '.join(map(str, self.cpus))}"
        return self.policy if self.node is None else f"{self.policy}:{self.node}"


def as_pin(given: object, distributed: bool) -> Pin | None:
    """The pin given as ``compile(pin=...)``; raises `ArgumentError` for anything that is no way to pin threads."""
    if given is None:
        return None
    if given in ("close", "spread"):
        return Pin(str(given))
    if given == "node":
        if not distributed:
            raise ArgumentError(
                'pin="node" places each rank of a distributed function on the memory node with its number; this '
                'function has no ranks: name the node, as in pin="node:0"'
            )
        return Pin("node")
    named = _NODE.fullmatch(given) if isinstance(given, str) else None
    if named is not None:
        return Pin("node", node=int(named[1]))
    if isinstance(given, Sequence) and not isinstance(given, str) and given and all(map(_is_cpu, given)):
        return Pin("list", tuple(int(cpu) for cpu in given))
    raise ArgumentError(
        f'pin={given!r} is not a way to pin threads: choose "close", "spread", "node", "node:0" or a list of cpus '
        "such as [0, 1]"
    )


def _is_cpu(given: object) -> bool:
    return type(given) is int and 0 <= given < _MOST
