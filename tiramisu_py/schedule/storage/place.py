"""The page policy of a temporary's memory: which buffers may have one, and how it follows values that move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace

from tiramisu_py.errors import CommandError, DeclarationError
from tiramisu_py.program.machine.pages import Pages, Policy, as_policy
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Role
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.records import dataclass
from tiramisu_py.schedule.command_arguments import size, statements
from tiramisu_py.schedule.command_fields import OnStatements
from tiramisu_py.schedule.storage.one_buffer import check_all_parts

#: Why memory of these kinds has no policy.
_ELSEWHERE = {
    Memory.PINNED: "page-locked memory, which the driver of the GPU allocates",
    Memory.HOST_MAPPED: "page-locked memory, which the driver of the GPU allocates",
    Memory.GPU: "the memory of a GPU",
    Memory.SHARED: "the shared memory of a GPU",
    Memory.REGISTER: "registers",
    Memory.FILE: "a file",
}


def place(program: Program, source: str, names: Sequence[str], policy: Policy, node: object) -> Program:
    """Give the buffer in which a computation (or the copy `names`) is kept a policy of memory."""
    check_all_parts(program, statements(program, names), "place")
    pages = _pages(source, policy, node)
    held = {statement.memory.target for statement in statements(program, names) if statement.role is Role.COPY} or {
        source
    }
    for name in sorted(held):
        buffer = program.buffers[program.storages[name].buffer]
        program = program.with_buffer(placed(source, buffer, pages))
    return program


def _pages(source: str, policy: Policy, node: object) -> Pages:
    if policy is Policy.BIND:
        if node is None:
            raise CommandError(f'{source}.place("bind") needs a memory node: node=0 is the first')
        return Pages(policy, size(node, f"{source}.place: node", 0))
    if node is not None:
        raise CommandError(f'{source}.place("{policy.value}") takes no node: "bind" keeps all of {source} on one')
    return Pages(policy)


def placed(source: str, buffer: Buffer, pages: Pages) -> Buffer:
    """The buffer with a policy; refuses one whose memory the generated program does not allocate."""
    if buffer.argument:
        raise CommandError(
            f"{source} is in the caller's array {buffer.name}, whose pages are where they were first written: "
            f'make the array with kernel.empty("{buffer.name}", ...), or place a temporary'
        )
    if buffer.memory is not Memory.HOST:
        raise CommandError(
            f"{source} is in {_ELSEWHERE[buffer.memory]}: a policy is for ordinary memory of the host "
            f"({source}.store_in(tm.HOST))"
        )
    return replace(buffer, pages=pages)


def moved(source: str, own: Buffer, into: Buffer) -> Buffer:
    """The buffer `into` which values move, with the policy of the buffer that they leave."""
    if own.pages is None or own.name == into.name:
        return into
    if into.pages is not None and into.pages != own.pages:
        raise CommandError(
            f"{source} is placed ({own.pages}), but {into.name} is placed differently ({into.pages}): give both the "
            "same policy"
        )
    return placed(source, into, own.pages)


# -- the commands as values


@dataclass(frozen=True, eq=False)
class Place(OnStatements):
    """Choose on which memory nodes (sockets) of the machine the pages of a temporary are.

    ::

        allocate bx             -->   allocate bx, each page on the node of the thread that first writes to it
                                      allocate bx, page k on node k mod (number of nodes)
                                      allocate bx, all pages on node 1
                                                     (bx.place("local"), ("interleave"), ("bind", node=1))

    ``bx.place("local")``: fresh pages, each on the node of the thread that first writes to it;
    ``bx.place("interleave")``: cyclically on all nodes; ``bx.place("bind", node=1)``: all on one, which must exist
    where the function is called. Nothing but the program's own loops touches the pages first. Pages are mapped and
    given back in each call (with `store_at`, in each iteration), which does not pay for small buffers. On a machine
    without memory nodes the policy makes no difference: see `Kernel.placement`. The policy stays with the buffer,
    and follows the values if `store_in` moves them. Raises `CommandError` for buffers that are not in ordinary
    memory of the host, and for arrays of the caller (`Kernel.empty` makes those).
    """

    policy: Policy | str
    _: KW_ONLY
    node: int | None = None

    def applied(self, program: Program) -> Program:
        try:
            policy = as_policy(self.policy)
        except DeclarationError as error:
            raise CommandError(str(error)) from None
        return place(program, self.computation, self.names(program), policy, self.node)
