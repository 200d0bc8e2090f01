"""Commands that move values: transfers between devices, and messages between ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from tiramisu_py import counting
from tiramisu_py.algorithm.expressions import Expr
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
    """Commands that bring values from where they are computed to where they are read."""

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

    def grid(self, *extents: Expr | int) -> None:
        """Declare the process grid: the number of ranks along each axis.

        ::

            as many ranks as the loops need     -->   4 ranks in a row                       (f.grid(4))
                                                -->   2 x P ranks, numbered row by row       (f.grid(2, P))

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
        """Add the transfers and waits that the program lacks, for values that one device computes and another reads.

        ::

            for r, c0, c1 on the GPU: p[..] = f(a)   -->   copy to the GPU what p reads of a
            for r, c: q[..] = g(p)                         for r, c0, c1 on the GPU: p[..] = f(a)
                                                           copy to the host what q reads of p
                                                           for r, c: q[..] = g(p)

        Between ranks, exactly the values that a rank reads and does not have come in messages from the nearest rank
        that has them: one message from a rank to another in each iteration of the loops around, as far out as is legal.
        ``depth={t: 4}`` lets ranks exchange a halo four times as deep in every fourth iteration of t, and compute the
        overlap twice. With `collectives`, exchanges that loop over ranks (a broadcast, a gather, a transposition)
        become calls of all ranks if every rank takes part (see ``collective=True`` of `create_xfer`): less to start,
        more to wait for.

        If the host has work of its own, kernels and transfers are started before work that they need not follow, unless
        a command orders them after it, and the host waits just before the statements that need them; its own work keeps
        its order. With `overlap` each GPU has an operation sequence for uploads and one for downloads beside those of
        its kernels, and values that need no other rank (the interior) are computed while messages are under way.

        ``pipeline=k`` (a host loop around kernels, or a list of such loops) moves in each iteration of k first the
        values that no earlier one has read, and then its results, on these sequences: values of iteration k + 1 are
        uploaded while k is computed and k - 1 is downloaded::

            by.split(r, 32, k, r1)                     copy to the GPU the rows that the first k reads more than others
            by.tag_gpu(blocks=[r1, c0], ...)    -->    for k: start to copy to the GPU what k reads and no one before it
            f.derive_transfers(pipeline=k)                    start kernel by
                                                              start to copy to the host what k has made
                                                       wait for the last copy

        Transfers of the user are kept, and values that are already on the device are not moved. A second call, after
        other commands, derives the transfers and waits anew. Raises `CommandError` for a pipeline along a name that is
        no loop, or a loop that is tagged or inside a kernel, and if nothing is to be moved in it.
        """
        for option, given in (("overlap", overlap), ("collectives", collectives)):
            if not isinstance(given, bool):
                raise CommandError(f"{self.name}.derive_transfers: {option}={given!r}: give True or False")
        command = DeriveTransfers(self.name, overlap=overlap, depth=depth, collectives=collectives, pipeline=pipeline)
        self.apply(command)

    def derived(self) -> list[str]:
        """The additions of `derive_transfers` as equivalent commands, to be edited.

        The commands are Python, over the function ``f`` and the package ``tm``. Raises `CommandError` if there are
        none: `create_xfer` cannot express computations that were cut (overlap=) or computed twice (depth=).
        """
        return derived_commands(self._program)

    def communication(self, **params: int) -> counting.Communication:
        """The traffic of the transfers at these sizes: elements, bytes and operations, in total and of each transfer.

        Between ranks it counts messages: `elements`, `bytes` and `messages` of all ranks, ``of_rank(1).sent`` and
        ``.received`` of one, `by_rank` of each, and ``channels()`` for each pair of ranks. With blocks that have bounds
        known at run time it counts the messages of the one rank with these bounds. Raises `ArgumentError` for a
        parameter without a value.
        """
        return counting.communication(self._program, params)
