"""Commands that move values: transfers between devices, and messages between ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from tiramisu_py import counting
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.derive.as_commands import derived_commands
from tiramisu_py.derive.derive_transfers import DeriveTransfers
from tiramisu_py.function.applying.as_script import script_lines
from tiramisu_py.function.applying.public_commands import function_command
from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.function.handles.exchange_handles import Exchange
from tiramisu_py.function.handles.operations import Transfer
from tiramisu_py.schedule.devices.transfers import CreateTransfer, Direction, Mode
from tiramisu_py.schedule.ranks.distribute import Grid
from tiramisu_py.schedule.ranks.exchange import CreateExchange
from tiramisu_py.schedule.ranks.exchange_half import Property


class TransferCommands(Scheduled):
    """Commands that bring values from where they are computed to where they are read."""

    grid = function_command(Grid.called)
    derive_transfers = function_command(DeriveTransfers)

    @overload
    def create_xfer(
        self,
        domain: Any,
        access: Expr,
        direction: Direction,
        mode: Mode = Mode.SYNC,
        *,
        stream: int = 0,
        device: int = 0,
        to_device: int | None = None,
        name: str | None = None,
    ) -> Transfer: ...

    @overload
    def create_xfer(
        self,
        domain: Expr,
        *,
        send: Any,
        to: Any,
        recv: Any,
        source: Any,
        send_props: Sequence[Mode | Property] = (),
        recv_props: Sequence[Mode | Property] = (),
        collective: bool = False,
        name: str | None = None,
    ) -> Exchange: ...

    def create_xfer(
        self,
        domain: Any,
        access: Expr | None = None,
        direction: Direction | None = None,
        mode: Mode = Mode.SYNC,
        *,
        stream: int = 0,
        device: int = 0,
        to_device: int | None = None,
        name: str | None = None,
        send: Any = None,
        to: Any = None,
        recv: Any = None,
        source: Any = None,
        send_props: Sequence[Mode | Property] = (),
        recv_props: Sequence[Mode | Property] = (),
        collective: bool = False,
    ) -> Transfer | Exchange:
        """Move values between the memories of the host and of GPUs, or between ranks.

        From one memory to another it copies ``access`` for each point of `domain`:

        ::

            f.create_xfer({r: R, c: C}, image[r, c], tm.CPU2GPU, tm.ASYNC, stream=1)
                -->   for r in 0..R:
                          for c in 0..C:
                              copy image[r, c] from the host to the GPU, on operation sequence 1

        `direction` is ``tm.CPU2GPU``, ``tm.GPU2CPU`` or ``tm.GPU2GPU`` (from `device` to `to_device`); or
        ``tm.CPU2FILE``, to a file that the first such transfer of a computation makes, and ``tm.FILE2CPU``. After a
        ``tm.SYNC`` transfer the host continues when the values have arrived; a ``tm.ASYNC`` one is only put on
        operation sequence `stream` of the GPU `device`, and `Transfer.wait` waits for it. Each point is an operation,
        until `Transfer.collapse_many` merges rows, or the whole transfer, into one. Returns the transfer, to be
        scheduled like a computation; it comes after the computation of its values, and otherwise where `order` places
        it.

        With `send` and `recv` it sends values from rank to rank::

            f.create_xfer(bx[r, c], send={q: (0, P - 1), r: (q*B + B - 1, q*B + B), c: C}, to=q + 1,
                          recv={q: (1, P), r: (q*B - 1, q*B), c: C}, source=q - 1, name="down")
                -->   on rank q < P - 1: for r, c: send bx[r, c] to rank q + 1         (down.send)
                      on rank q > 0:     for r, c: receive bx[r, c] from rank q - 1    (down.recv)

        Both halves name the value by their own iterators. An iterator with the name of a rank loop runs on ranks too;
        ``tm.rank`` (`tm.ranks` on a grid) is this rank's number, and need not be listed. A domain may have a condition:
        ``send=({r: R, c: C}, tm.rank > 0)``. `to` and `source` are affine in the iterators (tuples on a grid). The k-th
        message of an exchange from one rank to another matches the k-th receive there. As to the properties,
        ``tm.SYNC`` sends are complete when they are being received, ``tm.ASYNC`` ones (the default) when the values may
        be overwritten, and ``tm.BUFFERED`` ones at once; ``tm.NONBLOCK`` halves need a `Half.wait`, which ``tm.BLOCK``
        ones (the default) do not; ``tm.PERSISTENT`` ones, in time loops, set up their requests once. Each point is a
        message, until `Half.collapse_many` merges rows, or all points, into one. Returns the exchange, whose halves
        ``down.send`` and ``down.recv`` are scheduled like computations. `check` refuses missing values, unmatched
        messages and deadlocks.

        With ``collective=True`` all ranks take part together, once in each iteration of the loops that both halves
        share: MPI_Bcast if one rank sends the same values to all others, else MPI_Alltoallw. No statement may come
        between the two halves, and no value may be received where another is sent from. A rank may send to itself.
        Source: TIRAMISU, ``create_xfer``, one-sided and two-sided.
        """
        two_sided = collective or any(given is not None for given in (send, to, recv, source))
        if access is None or two_sided or send_props or recv_props:
            both = access is not None and isinstance(domain, Mapping | list | str)
            exchange = CreateExchange(
                self.name, access if both else domain, send=send, to=to, recv=recv, source=source,
                send_props=send_props, recv_props=recv_props, collective=collective, name=name, direction=direction,
            )  # fmt: skip
            made = exchange.made(self._program)
            self.apply(exchange)
            return Exchange(self, exchange.taken, made)
        transfer = CreateTransfer(
            self.name,
            domain,
            access,
            direction,
            mode=mode,
            stream=stream,
            device=device,
            to_device=to_device,
            name=name,
        )
        made = transfer.made(self._program)
        self.apply(transfer)
        return Transfer(self, transfer.taken, made)

    def derived(self) -> list[str]:
        """The additions of `derive_transfers` as equivalent commands, to be edited.

        The commands are Python, over the function ``f`` and the package ``tm``. Raises `CommandError` if there are
        none: `create_xfer` cannot express computations that were cut (overlap=) or computed twice (depth=).
        """
        return script_lines(derived_commands(self._program))

    def communication(self, **params: int) -> counting.Communication:
        """The traffic of the transfers at these sizes: elements, bytes and operations, in total and of each transfer.

        Between ranks it counts messages: `elements`, `bytes` and `messages` of all ranks, ``of_rank(1).sent`` and
        ``.received`` of one, `by_rank` of each, and ``channels()`` for each pair of ranks. With blocks that have bounds
        known at run time it counts the messages of the one rank with these bounds. `in_place` lists what GPUs read and
        write in unified arrays (``memory=tm.HOST_MAPPED``), which nothing moves. Raises `ArgumentError` for a
        parameter without a value.
        """
        return counting.communication(self._program, params)
