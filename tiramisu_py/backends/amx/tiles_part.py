"""The part of a host function that multiplies in matrix registers: what it needs, and its statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import cgen

from tiramisu_py.algorithm.types import DType
from tiramisu_py.backends.c.part import HostPart, Lines, Printer
from tiramisu_py.backends.c.runtime_files import RuntimeFile, packaged
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import LoadTile, LoopFunction, MultiplyTiles, Node, StoreTile, Tiles
from tiramisu_py.ir.rewriting import contents, of_kind
from tiramisu_py.program.storage import Memory

if TYPE_CHECKING:
    from tiramisu_py.backends.c.expressions.scope import Scope
    from tiramisu_py.backends.c.statements import Statements

RUNTIME = "tm_amx.h"
#: The code that a function returns where the machine has no tiles.
NO_TILES = 17


class TilesPart(HostPart):
    """The tiles of a function."""

    @classmethod
    def concerns(cls, function: LoopFunction) -> bool:
        """Whether the function, or a version of it, multiplies in tiles."""
        return any(Tiles in contents(each.body) for each in _bodies(function))

    def runtime(self) -> tuple[RuntimeFile, ...]:
        """The header of tiles."""
        return packaged("amx", RUNTIME)

    def documentation(self) -> list[str]:
        """The code for machines without tiles."""
        return [f"{NO_TILES} the machine has no AMX, or does not let the process use it."]

    def checked(self) -> Lines:
        """Asks for the registers of tiles."""
        needed = " | ".join(f"TM_{name}" for name in instruction_sets_of(self.function))
        failed = f'{self.name}_fail({NO_TILES}, "{self.function.title}: %s", tm_no_tiles)'
        return [
            cgen.Statement(f"const char *const tm_no_tiles = tm_amx_missing({needed})"),
            self.parts.fails("tm_no_tiles", failed),
        ]

    def printers(self, statements: Statements) -> Mapping[type | Memory, Printer]:
        """The printers of statements on tiles."""

        def scoped(node: Node, scope: Scope) -> Lines:
            assert isinstance(node, Tiles)
            body = statements.emit(node.body, scope.inner())
            return [cgen.Block([cgen.Statement("TM_TILES_BEGIN()"), *body, cgen.Statement("TM_TILES_END()")])]

        def moved(node: Node, scope: Scope) -> Lines:
            assert isinstance(node, LoadTile | StoreTile)
            element = statements.scalars(scope).element
            places = ", ".join(f"&{element(node.buffer, indices)}" for indices in (node.first, node.second))
            verb = "LOAD" if isinstance(node, LoadTile) else "STORE"
            return [cgen.Statement(f"TM_TILE_{verb}({node.tile}, {places})")]

        def multiplied(node: Node, scope: Scope) -> Lines:
            assert isinstance(node, MultiplyTiles)
            tiles = f"{node.sums}, {node.left}, {node.right}"
            return [cgen.Statement(f"TM_TILE_PRODUCT({_instruction(*node.of)}, {tiles})")]

        return {Tiles: scoped, LoadTile: moved, StoreTile: moved, MultiplyTiles: multiplied}


def instruction_sets_of(function: LoopFunction) -> tuple[str, ...]:
    """The instruction sets that the code of a function names, by the macros of compilers: those of its tiles."""
    products = [one for each in _bodies(function) for one in of_kind(each.body, MultiplyTiles)]
    kinds = {"AMX_BF16" if one.of[0].is_float else "AMX_INT8" for one in products}
    return ("AMX_TILE", *sorted(kinds)) if kinds else ()


def _instruction(left: DType, right: DType) -> str:
    """The instruction for the product of two types."""
    if left.is_float and left == right:
        return "tdpbf16ps"
    if left.bits != 8 or right.bits != 8:
        raise CompilerDefect(f"there is no product of {left} and {right} in tiles")
    return f"tdpb{_sign(left)}{_sign(right)}d"


def _sign(dtype: DType) -> str:
    return "u" if dtype.kind == "u" else "s"


def _bodies(function: LoopFunction) -> Iterator[LoopFunction]:
    yield function
    yield from (version.function for version in function.companions.versions)
