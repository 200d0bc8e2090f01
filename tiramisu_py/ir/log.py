"""The statement that logs events of a generated function."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.ir.roles import Roles, roles
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.ir import Node

#: The kinds of events on the host, on devices, and on the queues of files.
HOST_KINDS = ("nest", "launch", "copy", "wait", "send", "receive", "collective")
DEVICE_KINDS = ("kernel", "upload", "download", "transfer")
FILE_KINDS = ("store", "load")


@dataclass(frozen=True, eq=False)
class Traced:
    """The host's execution of `body` is one event of the trace, of one of `HOST_KINDS`.

    `name` is that of the statements. A launch and a copy are on operation sequence `stream` of `device`; a message has
    a `peer` and a `tag`, and a size in `bytes` if that is known beforehand.
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
