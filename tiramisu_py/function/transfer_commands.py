"""Commands that move values: transfers between devices, and messages between ranks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.derive.as_commands import derived_commands
from tiramisu_py.derive.derive_transfers import DeriveTransfers
from tiramisu_py.errors import CallError, CommandError
from tiramisu_py.former_words import warn_of_old_word
from tiramisu_py.function.applying.as_script import script_lines
from tiramisu_py.function.applying.public_commands import function_command
from tiramisu_py.function.applying.scheduled import Scheduled
from tiramisu_py.function.handles.exchange_handles import Exchange
from tiramisu_py.function.handles.old_words import FORMER_CALLS
from tiramisu_py.function.handles.operations import Transfer
from tiramisu_py.program.program import Program
from tiramisu_py.schedule.devices.transfers import CreateTransfer, Direction, Mode
from tiramisu_py.schedule.ranks.distribute import Grid
from tiramisu_py.schedule.ranks.exchange import CreateExchange


def _exchange(f: TransferCommands, made: CreateExchange, before: Program) -> Exchange:
    return Exchange(f, made.taken, made.made(before))


class TransferCommands(Scheduled):
    """Commands that bring values from where they are computed to where they are read."""

    grid = function_command(Grid.called)
    derive_transfers = function_command(DeriveTransfers)

    create_exchange = function_command(CreateExchange, gives=_exchange)

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
        **halves: Any,
    ) -> Transfer:
        """Move values between the memories of the host and of GPUs, or to a file and back.

        It copies ``access`` for each point of `domain`:

        ::

            f.create_xfer({r: R, c: C}, image[r, c], tm.CPU2GPU, tm.ASYNC, stream=1)
                -->   for r in 0..R:
                          for c in 0..C:
                              copy image[r, c] from the host to the GPU, on operation sequence 1

        `direction` is ``tm.CPU2GPU``, ``tm.GPU2CPU`` or ``tm.GPU2GPU`` (from `device` to `to_device`); or
        ``tm.CPU2FILE`` or ``tm.GPU2FILE``, to a file that the first such transfer of a computation makes, and
        ``tm.FILE2CPU`` or ``tm.FILE2GPU``: those of a GPU go by way of page-locked memory of the runtime. After a
        ``tm.SYNC`` transfer the host continues when the values have arrived; a ``tm.ASYNC`` one is only put on
        operation sequence `stream` of the GPU `device`, and `Transfer.wait` waits for it. Each point is an operation,
        until `Transfer.collapse_many` merges rows, or the whole transfer, into one. Returns the transfer, to be
        scheduled like a computation; it comes after the computation of its values, and otherwise where `order` places
        it. Values between ranks move by `create_exchange`; `halves`, as older versions have them here, are its
        arguments. Source: TIRAMISU, ``create_xfer``, one-sided.
        """
        if halves:
            older: Transfer = self._exchange_of_older_versions(domain, access, direction, name, halves)
            return older
        if access is None:
            raise CallError(
                f"{self.name}.create_xfer({domain!r}) lacks access, direction: write {self.name}.create_xfer(domain, "
                "image[r, c], tm.CPU2GPU), or, between ranks, create_exchange(bx[r, c], send=..., to=..., recv=..., "
                "source=...)"
            )
        transfer = CreateTransfer(
            self.name, domain, access, direction, mode=mode, stream=stream, device=device, to_device=to_device,
            name=name,
        )  # fmt: skip
        made = transfer.made(self._program)
        self.apply(transfer)
        return Transfer(self, transfer.taken, made)

    def _exchange_of_older_versions(
        self, domain: Any, access: Any, direction: Any, name: str | None, halves: Mapping[str, Any]
    ) -> Any:
        """An exchange by the word that it had in older versions."""
        known = inspect.signature(CreateExchange).parameters
        for each in halves:
            if each not in known:
                raise CallError(
                    f"create_xfer has no argument {each}=: it takes domain, access, direction, mode, stream, device, "
                    "to_device and name"
                )
        if direction is not None or (access is not None and isinstance(domain, Mapping | list | str)):
            raise CommandError(
                "send= and recv= are for messages between ranks, and take no direction: "
                "create_exchange(bx[r, c], send={...}, to=..., recv={...}, source=...)"
            )
        warn_of_old_word(f"create_xfer with send= is an old word: write {FORMER_CALLS['create_xfer with send=']}")
        return self.create_exchange(domain, **halves, name=name)

    def derived(self) -> list[str]:
        """The additions of `derive_transfers` as equivalent commands, to be edited.

        The commands are Python, over the function ``f`` and the package ``tm``. Raises `CommandError` if there are
        none: no command can express computations that were cut (overlap=) or computed twice (depth=).
        """
        return script_lines(derived_commands(self._program))
