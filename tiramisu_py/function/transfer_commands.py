"""Commands that move values: transfers between devices, and messages between ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.derive.communication import Communication, communication
from tiramisu_py.derive.transfers import derived_transfers
from tiramisu_py.function.operations import Exchange, Half, Transfer
from tiramisu_py.function.scheduled import Scheduled
from tiramisu_py.function.script import as_written
from tiramisu_py.program.program import Program
from tiramisu_py.schedule import messages, transfers
from tiramisu_py.schedule.messages import Property
from tiramisu_py.schedule.selection import free_name
from tiramisu_py.schedule.transfers import Direction, Mode


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
    ) -> Transfer | Exchange:
        """Copy values between the memories of the host and of GPUs: ``access`` for each point of `domain`.

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
        Source: TIRAMISU, ``create_xfer``, in its one-sided form.
        """
        if access is None:
            given = {
                "send": send, "to": to, "recv": recv, "source": source,
                "send_props": send_props, "recv_props": recv_props,
            }  # fmt: skip
            return self._exchange(domain, name, given)
        taken = transfers.source_of(access, self.owner)
        between = transfers.between(direction, mode, stream, device, to_device)
        made = free_name(self._program, transfers.default_name(taken, between)) if name is None else name

        def change(program: Program, _: str) -> Program:
            return transfers.one_sided(program, made, domain, access, between, self.owner)

        shown = {
            "mode": None if mode is Mode.SYNC else mode, "stream": stream or None, "device": device or None,
            "to_device": to_device, "name": name,
        }  # fmt: skip
        self.apply(as_written(self.name, "create_xfer", (domain, access, direction), shown), change)
        return Transfer(self, taken, made)

    def _exchange(self, access: Expr, name: str | None, given: Mapping[str, Any]) -> Exchange:
        """Messages between ranks: the two-sided form of `create_xfer`."""
        source = transfers.source_of(access, self.owner)
        made = free_name(self._program, f"{source}_exchange") if name is None else name

        def change(program: Program, _: str) -> Program:
            algorithm, owner = program.algorithm, self.owner
            send = messages.half(algorithm, made, given["send"], access, given["to"], given["send_props"], owner)
            receive = messages.half(algorithm, made, given["recv"], access, given["source"], given["recv_props"], owner)
            return messages.exchange(program, made, send, receive)

        shown = {
            key: None if isinstance(value, tuple) and not value else value
            for key, value in {**given, "name": name}.items()
        }
        self.apply(as_written(self.name, "create_xfer", (access,), shown), change)
        return Exchange(Half(self, source, f"{made}_send"), Half(self, source, f"{made}_receive"))

    def derive_transfers(self) -> None:
        """Add the transfers, and the waits, that the program lacks: of what one device computes and another reads.

        ::

            for r, c0, c1 on the GPU: p[..] = f(a)   -->   copy to the GPU what p reads of a
            for r, c: q[..] = g(p)                         for r, c0, c1 on the GPU: p[..] = f(a)
                                                           copy to the host what q reads of p
                                                           for r, c: q[..] = g(p)

        Transfers of the user are kept, and values that are on the device already are not moved. Called again, after
        other commands, it derives its transfers and waits anew.
        """
        self.apply(f"{self.name}.derive_transfers()", derived_transfers)

    def communication(self, **params: int) -> Communication:
        """What the transfers move at these sizes: elements, bytes and operations, together and of each transfer."""
        return communication(self._program, params)
