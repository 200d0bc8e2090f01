"""Commands that move values: transfers between devices, and messages between ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.counting.amounts import Communication
from tiramisu_py.counting.communication import communication
from tiramisu_py.derive.as_commands import derived_commands
from tiramisu_py.derive.derive_transfers import DeriveTransfers
from tiramisu_py.errors import CommandError
from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.function.handles.exchange_handles import Exchange
from tiramisu_py.function.handles.operations import Transfer
from tiramisu_py.schedule.devices.transfers import CreateTransfer, Direction, Mode
from tiramisu_py.schedule.ranks.distribute import Grid
from tiramisu_py.schedule.ranks.exchange import CreateExchange
from tiramisu_py.schedule.ranks.exchange_half import Property


class TransferCommands(Scheduled):
    """How values get from where they are computed to where they are read."""

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

        `direction` is ``tm.CPU2GPU``, ``tm.GPU2CPU`` or ``tm.GPU2GPU`` (from `device` to `to_device`). After a
        ``tm.SYNC`` transfer the host goes on when the values have arrived; a ``tm.ASYNC`` one is only put on operation
        sequence `stream` of the GPU `device`, and `Transfer.wait` waits for it. Each point is an operation, until
        `Transfer.collapse_many` makes whole rows, or all, one. Returns the transfer, to be scheduled like a
        computation; it comes after what computes the values, and otherwise where `order` says.

        With `send` and `recv` it sends values from rank to rank::

            f.create_xfer(bx[r, c], send={q: (0, P - 1), r: (q*B + B - 1, q*B + B), c: C}, to=q + 1,
                          recv={q: (1, P), r: (q*B - 1, q*B), c: C}, source=q - 1, name="down")
                -->   on rank q < P - 1: for r, c: send bx[r, c] to rank q + 1         (down.send)
                      on rank q > 0:     for r, c: receive bx[r, c] from rank q - 1    (down.recv)

        Both halves name the value by their own iterators. One that has the name of a loop that runs on ranks does so
        too; ``tm.rank`` (`tm.ranks` on a grid) is this rank's number, and need not be listed. A domain may have a
        condition: ``send=({r: R, c: C}, tm.rank > 0)``. `to` and `source` are affine in the iterators (tuples on a
        grid). The k-th message of an exchange from one rank to another meets the k-th receive there. Of the properties,
        ``tm.SYNC`` sends are complete when they are being received, ``tm.ASYNC`` ones (the default) when the values may
        be overwritten, and ``tm.BUFFERED`` ones at once; ``tm.NONBLOCK`` halves need a `Half.wait`, which
        ``tm.BLOCK`` ones (the default) do not; ``tm.PERSISTENT`` ones, in time loops, set up their requests once. Each
        point is a message, until `Half.collapse_many` makes whole rows, or all, one. Returns the exchange, whose halves
        ``down.send`` and ``down.recv`` are scheduled like computations. What is missing, unmatched, or waits forever is
        refused by `check`.

        With ``collective=True`` all ranks take part together, once in each iteration of the loops that both halves
        share: MPI_Bcast where one rank sends the same values to all others, else MPI_Alltoallw. Nothing comes between
        the two halves, and nothing that is received lies where something is sent from. A rank may send to itself.
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

    def grid(self, *extents: Expr | int) -> None:
        """Declare the process grid: the number of ranks along each axis, ``f.grid(4)`` or ``f.grid(2, P)``.

        Numbers are constants or affine in the parameters, at least 1. Ranks are numbered row by row, so that on a grid
        of 2 x 3 rank 4 has the coordinates (1, 1). Without a declaration the grid is as large as the loops that
        `tag_distribute` runs on ranks need. The function needs at least as many ranks as the grid has; those beyond it
        do nothing. A second call replaces the first. Raises `CommandError` where loops, arrays or messages use more
        axes.
        """
        self.apply(Grid(self.name, extents))

    def derive_transfers(
        self,
        *,
        overlap: bool = False,
        depth: Mapping[Any, int] | None = None,
        collectives: bool = False,
        pipeline: Any = None,
    ) -> None:
        """Add the transfers, and the waits, that the program lacks: of what one device computes and another reads.

        ::

            for r, c0, c1 on the GPU: p[..] = f(a)   -->   copy to the GPU what p reads of a
            for r, c: q[..] = g(p)                         for r, c0, c1 on the GPU: p[..] = f(a)
                                                           copy to the host what q reads of p
                                                           for r, c: q[..] = g(p)

        Between ranks, the values that a rank reads and has not come in messages from the nearest that has them: exactly
        these, one message from a rank to another in each iteration of the loops around, as far out as is legal.
        ``depth={t: 4}`` lets ranks exchange every fourth iteration of t, a halo four times as deep, and compute twice
        what overlaps. With `collectives` exchanges that loop over ranks (a broadcast, a gathering, a transposition) are
        calls of all ranks, where every rank takes part (see ``collective=True`` of `create_xfer`): less to start, more
        to wait for.

        Where the host has work of its own, kernels and transfers are started before work that they need not follow,
        unless a command orders them after it, and the host waits just before what needs them; its own work keeps its
        order. With `overlap` each GPU has an operation sequence for uploads and one for downloads beside those of its
        kernels, and what needs no other rank (the interior) is computed while messages are under way.

        ``pipeline=k`` (a loop of the host around kernels, or a list of such loops) moves in each iteration of k what it
        is the first to read, and then what it has made, on these sequences: iteration k + 1 is on its way in while k is
        computed and k - 1 is on its way out::

            by.split(r, 32, k, r1)                     copy to the GPU the rows that the first k reads more than others
            by.tag_gpu(blocks=[r1, c0], ...)    -->    for k: start to copy to the GPU what k reads and no one before it
            f.derive_transfers(pipeline=k)                    start kernel by
                                                              start to copy to the host what k has made
                                                       wait for the last copy

        Transfers of the user are kept, and values that are on the device already are not moved. Called again, after
        other commands, it derives its transfers and waits anew. Raises `CommandError` for a pipeline along what is no
        loop, inside a kernel, or tagged, and where nothing is to be moved in it.
        """
        for option, given in (("overlap", overlap), ("collectives", collectives)):
            if not isinstance(given, bool):
                raise CommandError(f"{self.name}.derive_transfers: {option}={given!r}: give True or False")
        command = DeriveTransfers(self.name, overlap=overlap, depth=depth, collectives=collectives, pipeline=pipeline)
        self.apply(command)

    def derived(self) -> list[str]:
        """What `derive_transfers` has added, as the commands that make the same in its place, to be edited.

        The commands are Python, over the function ``f`` and the package ``tm``. Raises `CommandError` where there are
        none: computations that were cut (overlap=) or computed twice (depth=) are none of `create_xfer`.
        """
        return derived_commands(self._program)

    def communication(self, **params: int) -> Communication:
        """What the transfers move at these sizes: elements, bytes and operations, together and of each transfer.

        Between ranks it counts messages: `elements`, `bytes` and `messages` of all ranks, ``of_rank(1).sent`` and
        ``.received`` of one, `by_rank` of each, and ``channels()``, who sends how much to whom. With blocks that have
        bounds of their own it counts what the one rank with these bounds sends. Raises `ArgumentError` for a parameter
        without a value.
        """
        return communication(self._program, params)
