"""The commands of all families, as methods of one class."""

from __future__ import annotations

from tiramisu_py.function.commands.band_commands import BandCommands
from tiramisu_py.function.commands.case_commands import CaseCommands
from tiramisu_py.function.commands.copy_commands import CopyCommands
from tiramisu_py.function.commands.gpu_commands import GpuCommands
from tiramisu_py.function.commands.loop_commands import LoopCommands
from tiramisu_py.function.commands.memory_hint_commands import StoreCommands
from tiramisu_py.function.commands.order_commands import OrderCommands
from tiramisu_py.function.commands.partition_commands import PartitionCommands
from tiramisu_py.function.commands.rank_commands import RankCommands
from tiramisu_py.function.commands.storage_commands import StorageCommands
from tiramisu_py.function.commands.time_commands import TimeCommands


class Commands(
    LoopCommands,
    BandCommands,
    GpuCommands,
    RankCommands,
    OrderCommands,
    StorageCommands,
    StoreCommands,
    CopyCommands,
    PartitionCommands,
    TimeCommands,
    CaseCommands,
):
    """What may be done with some statements: the commands of every family."""
