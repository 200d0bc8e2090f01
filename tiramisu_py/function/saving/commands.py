"""All commands that a file can hold."""

from __future__ import annotations

from tiramisu_py.derive.derive_transfers import DeriveTransfers
from tiramisu_py.program.command import Command
from tiramisu_py.schedule.devices.kernel_copies import CacheLocal, CacheShared
from tiramisu_py.schedule.devices.place_waits import PlaceBarrier, Remove, WaitFor
from tiramisu_py.schedule.devices.set_gpu_target import SetGpuTarget
from tiramisu_py.schedule.devices.tag_gpu import Coarsen, GpuTile, TagGpu
from tiramisu_py.schedule.devices.transfers import CreateTransfer
from tiramisu_py.schedule.instances.partition import DealOut
from tiramisu_py.schedule.instances.separate import Inline, SeparateAt
from tiramisu_py.schedule.instances.separate_cases import SeparateCases
from tiramisu_py.schedule.locality.cached_copies import CacheAt, Pack
from tiramisu_py.schedule.locality.compute_at import ComputeAt, StoreAt
from tiramisu_py.schedule.locality.reverse_compute_at import ReverseComputeAt
from tiramisu_py.schedule.locality.slide import Slide
from tiramisu_py.schedule.locality.time_tile import TimeTiles
from tiramisu_py.schedule.loops.coalesced_producers import Coalesce
from tiramisu_py.schedule.loops.isl_schedule import SetSchedule
from tiramisu_py.schedule.loops.order import After, Before, Between, Fuse, InOrder
from tiramisu_py.schedule.loops.tags import Parallelize, UnrollLoop, Vectorize
from tiramisu_py.schedule.loops.tensorize import Tensorize
from tiramisu_py.schedule.loops.transforms import Interchange, Reorder, Reverse, Shift, Split, Tile
from tiramisu_py.schedule.loops.unimodular import Skew, Transform
from tiramisu_py.schedule.loops.unroll_and_jam import UnrollAndJam
from tiramisu_py.schedule.ranks.declare_blocks import DeclareBlocks
from tiramisu_py.schedule.ranks.distribute import Distribute, Grid, TagDistribute
from tiramisu_py.schedule.ranks.exchange import CollapseMany, CreateExchange, SetWaitAccess
from tiramisu_py.schedule.ranks.store_in import StoreIn
from tiramisu_py.schedule.reductions.rfactor import Rfactor
from tiramisu_py.schedule.specialize import Specialize
from tiramisu_py.schedule.storage.fold import Fold
from tiramisu_py.schedule.storage.keep import Keep
from tiramisu_py.schedule.storage.memory_hints import Prefetch, StoreNontemporal
from tiramisu_py.schedule.storage.place import Place

COMMANDS: tuple[type[Command], ...] = (
    Split, Tile, Coalesce, Interchange, Reorder, Shift, Skew, Transform, Reverse, SetSchedule,
    Parallelize, Vectorize, UnrollLoop, UnrollAndJam, Tensorize, Rfactor,
    After, Before, Between, Fuse, InOrder,
    StoreIn, StoreAt, Fold, Keep, Place, StoreNontemporal, Prefetch,
    ComputeAt, ReverseComputeAt, CacheAt, Pack, Slide, TimeTiles,
    SeparateAt, SeparateCases, Inline, DealOut,
    SetGpuTarget, TagGpu, GpuTile, Coarsen, CacheShared, CacheLocal, CreateTransfer, PlaceBarrier, WaitFor, Remove,
    TagDistribute, Distribute, Grid, DeclareBlocks, CreateExchange, CollapseMany, SetWaitAccess,
    DeriveTransfers, Specialize,
)  # fmt: skip
