"""The statements of the loop IR."""

from __future__ import annotations

from tiramisu_py.ir.array_calls import ArrayCall
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
from tiramisu_py.ir.messages import AllReduce, Collective, Complete, Piece, Post, Requests
from tiramisu_py.ir.statements import (
    Allocate,
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
    Store,
)
from tiramisu_py.ir.tile_statements import LoadTile, MultiplyTiles, StoreTile, Tiles

Node = (
    Block
    | Comment
    | For
    | If
    | Let
    | Declare
    | Assign
    | Store
    | Prefetch
    | ArrayCall
    | Allocate
    | MemoryBlock
    | BeginArray
    | EndArray
    | Mask
    | Launch
    | Copy
    | Events
    | Record
    | Await
    | Barrier
    | Deferred
    | TreeReduce
    | LoadMatrices
    | Mma
    | LastBlock
    | Locked
    | Piece
    | Post
    | Requests
    | Complete
    | Collective
    | AllReduce
    | Traced
    | Tiles
    | LoadTile
    | StoreTile
    | MultiplyTiles
)
