"""The loop IR: the node classes of a generated function, by kind.

Expressions are those of Layer I, fully typed (no weak types: conversions are explicit `Cast` nodes, index
arithmetic is int64), with loop variables as `Iter`, and with `Load` in place of `Access`. An expression has one lane
unless it contains a `Ramp`, a vector `Load` or a vector variable; a scalar operand of a vector operation is broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.ir.array_calls import ArrayCall, ArraySection
    from tiramisu_py.ir.expressions import GpuIndex, Idiom, Joined, Lane, Load, Ramp, Scalar, Shifted, Variable
    from tiramisu_py.ir.gpu_statements import (
        Await,
        Barrier,
        Copy,
        Deferred,
        Events,
        LastBlock,
        Launch,
        LoadMatrices,
        Locked,
        Mma,
        Record,
        TreeReduce,
    )
    from tiramisu_py.ir.log import Traced
    from tiramisu_py.ir.loop_functions import (
        ArrayArgument,
        BlockBounds,
        CallOptions,
        Companions,
        DrawnNumbers,
        KernelArray,
        KernelFunction,
        Labels,
        LoopFunction,
        OnGpus,
        ProcessGrid,
        ScalarArgument,
        Version,
    )
    from tiramisu_py.ir.messages import AllReduce, Collective, Complete, Piece, Post, Request, Requests, Side
    from tiramisu_py.ir.nodes import Node
    from tiramisu_py.ir.statements import (
        Allocate,
        ArrayRoom,
        Assign,
        BeginArray,
        Block,
        Comment,
        Declare,
        EndArray,
        For,
        If,
        Let,
        Mask,
        MemoryBlock,
        Prefetch,
        Private,
        Store,
    )
    from tiramisu_py.ir.tile_statements import LoadTile, MultiplyTiles, StoreTile, Tiles

front(
    __name__,
    {
        "tiramisu_py.ir.array_calls": "ArrayCall, ArraySection",
        "tiramisu_py.ir.expressions": "GpuIndex, Idiom, Joined, Lane, Load, Ramp, Scalar, Shifted, Variable",
        "tiramisu_py.ir.gpu_statements": (
            "Await, Barrier, Copy, Deferred, Events, LastBlock, Launch, LoadMatrices, Locked, Mma, Record, TreeReduce"
        ),
        "tiramisu_py.ir.log": "Traced",
        "tiramisu_py.ir.loop_functions": (
            "ArrayArgument, BlockBounds, CallOptions, Companions, DrawnNumbers, KernelArray, KernelFunction, Labels, "
            "LoopFunction, OnGpus, ProcessGrid, ScalarArgument, Version"
        ),
        "tiramisu_py.ir.messages": "AllReduce, Collective, Complete, Piece, Post, Request, Requests, Side",
        "tiramisu_py.ir.nodes": "Node",
        "tiramisu_py.ir.statements": (
            "Allocate, ArrayRoom, Assign, BeginArray, Block, Comment, Declare, EndArray, For, If, Let, Mask, "
            "MemoryBlock, Prefetch, Private, Store"
        ),
        "tiramisu_py.ir.tile_statements": "LoadTile, MultiplyTiles, StoreTile, Tiles",
    },
)

__all__ = [
    "AllReduce",
    "Allocate",
    "ArrayArgument",
    "ArrayCall",
    "ArrayRoom",
    "ArraySection",
    "Assign",
    "Await",
    "Barrier",
    "BeginArray",
    "Block",
    "CallOptions",
    "BlockBounds",
    "Collective",
    "Comment",
    "Companions",
    "Complete",
    "Copy",
    "Declare",
    "Deferred",
    "DrawnNumbers",
    "EndArray",
    "Events",
    "For",
    "GpuIndex",
    "Idiom",
    "If",
    "Joined",
    "KernelArray",
    "KernelFunction",
    "Labels",
    "Lane",
    "LastBlock",
    "Locked",
    "Launch",
    "Let",
    "Load",
    "LoadTile",
    "LoopFunction",
    "Mask",
    "MemoryBlock",
    "LoadMatrices",
    "Mma",
    "MultiplyTiles",
    "Node",
    "OnGpus",
    "Piece",
    "Post",
    "Prefetch",
    "ProcessGrid",
    "Private",
    "Ramp",
    "Record",
    "Request",
    "Requests",
    "Scalar",
    "Shifted",
    "ScalarArgument",
    "Side",
    "Store",
    "StoreTile",
    "Tiles",
    "Traced",
    "TreeReduce",
    "Variable",
    "Version",
]
