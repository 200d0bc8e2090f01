"""The times of parts, estimated from operations and bytes (roofline model): nothing is run.

The time of a part is that of its arithmetic or of its memory, whichever is longer, plus the times of its GPU's link and
of its messages. In a pipeline, which overlaps copies and kernels, only the busiest operation sequence counts.

Source: Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Amount, Communication, Counter, Program, Work, communication
from tiramisu_py.tuning.levels import Level, Slot, owners
from tiramisu_py.tuning.machine_model import Machine


class Estimate:
    """The seconds of each part on a machine; raises `ArgumentError` if the machine's description is incomplete."""

    def __init__(self, program: Program, levels: Sequence[Level], machine: Machine) -> None:
        self._program = program
        self._slots = [slot for level in levels for slot in level.slots]
        self._owners = owners(program, levels)
        self._counter = Counter(program)
        self._machine = machine
        if any(slot.gpu is not None for slot in self._slots) and not machine.has_gpu:
            raise ArgumentError(
                "parts run on a GPU, and the machine has no rates of a GPU: give gpu_flops, gpu_bandwidth and "
                'link_bandwidth, or the name of a known GPU, machine=tm.Machine.here(gpu="H200")'
            )

    def __call__(self, params: Mapping[str, int]) -> list[float]:
        """The seconds of each part at given parameter values, level by level."""
        moved = communication(self._program, params)
        return [self._seconds(slot, params, moved) for slot in self._slots]

    def _seconds(self, slot: Slot, params: Mapping[str, int], moved: Communication) -> float:
        work = self._counter.work(slot.statements, params)
        alike = 1 if slot.ranks is None else len(slot.ranks)
        if slot.gpu is None:
            return on_cores(work, self._machine) / alike + self._messages(slot, moved)
        mine = [one for one in moved.transfers if self._owners.get(one.name) is slot]
        queues = {self._kernels_on(slot): on_gpu(work, self._machine)}
        for one in mine:
            queue = self._program.queue_of(self._program.statements[one.name])
            queues[queue] = queues.get(queue, 0.0) + over_link(one.bytes, one.messages, self._machine)
        overlapped = bool(mine) and all(self._is_pipelined(slot, one.name) for one in mine)
        return (max(queues.values()) if overlapped else sum(queues.values())) / alike

    def _kernels_on(self, slot: Slot) -> tuple[int, int] | None:
        """The operation sequence of a part's kernels."""
        queues = (self._program.queue_of(self._program.statements[name]) for name in sorted(slot.statements))
        return next(queues, None)

    def _is_pipelined(self, slot: Slot, name: str) -> bool:
        """Whether a transfer is asynchronous and made chunk by chunk, in a loop with the part's kernels."""
        transfer = self._program.statements[name]
        loops = {loop for each in slot.statements for loop in self._program.statements[each].loops}
        return transfer.transfer is not None and transfer.transfer.asynchronous and bool(loops & set(transfer.loops))

    def _messages(self, slot: Slot, moved: Communication) -> float:
        """The seconds in which the busiest rank of a part sends and receives."""
        if slot.ranks is None or not moved.grid:
            return 0.0
        found = [moved.of_rank(rank) for rank in slot.ranks if rank < moved.ranks]
        return max((over_network(one.sent + one.received, self._machine) for one in found), default=0.0)


def on_cores(work: Work, machine: Machine) -> float:
    """The seconds of some work on all cores of the host."""
    return max(work.operations / (machine.core_flops * machine.cores), work.bytes / machine.host_bandwidth)


def on_gpu(work: Work, machine: Machine) -> float:
    """The seconds of some work on a GPU, including its kernel launches."""
    running = max(work.operations / machine.gpu_flops, work.bytes / machine.gpu_bandwidth)
    return work.kernels * machine.launch_latency + running


def over_link(size: int, copies: int, machine: Machine) -> float:
    """The seconds of transferring `size` bytes between the host and a GPU, in `copies` copies."""
    return copies * machine.link_latency + size / machine.link_bandwidth


def over_network(amount: Amount, machine: Machine) -> float:
    """The seconds of messages between ranks."""
    return amount.messages * machine.network_latency + amount.bytes / machine.network_bandwidth
