"""What an event log is told of a generated function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.ir.roles import Roles, roles

if TYPE_CHECKING:
    from tiramisu_py.ir import Node

#: What the host does, and what devices do.
HOST_KINDS = ("nest", "launch", "copy", "wait", "send", "receive", "collective")
DEVICE_KINDS = ("kernel", "upload", "download", "transfer")


@dataclass(frozen=True, eq=False)
class Traced:
    """What the host does from the begin of `body` to its end is an event of the trace, of one of `HOST_KINDS`.

    `name` is that of the statements. A launch and a copy are on operation sequence `stream` of `device`; a message has
    a `peer` and a `tag`, and its elements have so many `bytes`, where these are known before it.
    """

    roles: ClassVar[Roles] = roles(operands="peer bytes", inside="body", data="kind name device stream tag")

    kind: str
    name: str
    body: Node
    device: int | None = None
    stream: int | None = None
    peer: Expr | None = None
    tag: int | None = None
    bytes: Expr | None = None
