"""Vector operations as named functions: each is one instruction where the processor has it.

A source declares the operations that it uses, ``TM_OPERATION_2(min, uint8x64)``, and calls ``min_uint8x64(a, b)``. The
processor's own forms are in `tm_x86.h` and `tm_neon.h`, the generic ones in `tm_idioms.h`.
"""

from __future__ import annotations

from collections.abc import Callable

from tiramisu_py.algorithm.types import DType, float32, int8, int16, int32, int64, strong, uint8, uint16, uint32, uint64
from tiramisu_py.backends.c.expressions.literals import literal

HEADER = "tm_idioms.h"
#: The header, and the tables of processors that it includes.
FILES = (HEADER, "tm_x86.h", "tm_neon.h")
_SIGNED = {8: int8, 16: int16, 32: int32, 64: int64}
_UNSIGNED = {8: uint8, 16: uint16, 32: uint32, 64: uint64}


class Idioms:
    """The operations that a source uses; `name` returns the name of a vector type, and declares it."""

    def __init__(self, name: Callable[[DType, int], str]) -> None:
        self._name = name
        self._lines: dict[str, None] = {}
        self._last: dict[str, None] = {}
        self._loaded: set[tuple[DType, int, int]] = set()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def declarations(self) -> list[str]:
        """The lines that define the functions of vectors."""
        return sorted(self._lines)

    def strides(self) -> set[tuple[DType, int, int]]:
        """The types, lanes and strides of the loads that these functions use."""
        return self._loaded

    def loads(self) -> list[str]:
        """The lines that define the load functions, which use vector functions and simpler loads."""
        return sorted(self._last)

    def operation(self, name: str, dtype: DType, lanes: int, operands: int = 2) -> str:
        """The function on vectors of one type, one or two of them, that `tm_idioms.h` calls `name`."""
        vector = self._name(dtype, lanes)
        self._lines[f"TM_OPERATION_{operands}({name}, {vector})"] = None
        return f"{name}_{vector}"

    def function(self, name: str, lanes: int) -> str:
        """The mathematical function of float32 that `tm_runtime.h` calls `name`, of vectors."""
        vector, *integers = (self._name(dtype, lanes) for dtype in (float32, int32, uint32))
        self._lines[f"TM_{name.upper()}_OF({', '.join([vector, *integers])})"] = None
        return f"{name}_{vector}"

    def conversion(self, source: DType, target: DType, lanes: int) -> str:
        """The function that converts lanes to a type of another width, or to a float of twice their width."""
        given, wanted = self._name(source, lanes), self._name(target, lanes)
        through = self._name(_between(source, target), lanes)
        kept = source.name if target.bits > source.bits else str(source.bits)
        entry = f"{kept}_to_{target.name if target.is_float else target.bits}x{lanes}"
        self._lines[f"TM_CONVERSION({wanted}, {given}, {through}, {entry})"] = None
        return f"{wanted}_from_{given}"

    def of_halves(self, source: DType, target: DType, lanes: int) -> str:
        """The function that makes float32 of 16-bit floats, or rounds it to them."""
        given, wanted = self._name(source, lanes), self._name(target, lanes)
        scalar = f"tm_to_{target.name}" if target.is_half else f"tm_from_{source.name}"
        self._lines[f"TM_OF_HALVES({wanted}, {given}, {scalar}, {source.name}_to_{target.name}x{lanes})"] = None
        return f"{wanted}_from_{given}"

    def saturated(self, source: DType, target: DType, lanes: int) -> str:
        """The function that makes lanes narrower, each at most the largest and at least the least value of the type."""
        convert = self.conversion(source, target, lanes)
        given, wanted = self._name(source, lanes), self._name(target, lanes)
        least, most = (self.operation(name, source, lanes) for name in ("max", "min"))
        (low, high), (lowest, highest) = target.limits, source.limits
        ends = f"{literal(max(low, lowest), source).text}, {literal(min(high, highest), source).text}"
        body = f"{convert}, {least}, {most}, {ends}, {source.name}_to_{target.name}x{lanes}"
        self._lines[f"TM_SATURATED({wanted}, {given}, {body})"] = None
        return f"{wanted}_saturated_from_{given}"

    def strided(self, source: DType, target: DType, lanes: int, stride: int) -> str:
        """The function that loads elements `stride` apart and converts them to a wider type."""
        self.conversion(source, target, lanes)
        given, wanted = self._name(source, lanes), self._name(target, lanes)
        entry = f"{source.name}_to_{target.bits}x{lanes}"
        self._last[f"TM_STRIDED_CONVERSION({wanted}, {given}, {stride}, {entry})"] = None
        return f"load_strided_{stride}_{wanted}_from_{given}"

    def dot(self, source: DType, target: DType, lanes: int, stride: int, count: int) -> str:
        """The function that sums the first `count` of each `stride` elements with weights, in a wider type."""
        self._loaded.add((source, lanes, stride))
        self.conversion(source, target, lanes)
        given, wanted = self._name(source, lanes), self._name(target, lanes)
        self._last[f"TM_DOT({wanted}, {given}, {count}, {stride}, {source.name}_to_{target.bits}x{lanes})"] = None
        return f"dot_{count}_of_{stride}_{wanted}_from_{given}"

    def quads(self, shared: DType, spread: DType, lanes: int) -> str:
        """The function that adds to each lane four products of bytes: four that lanes share, and four of its own."""
        wanted = self._name(int32, lanes)
        self._lines[f"TM_QUADS({wanted}, {shared.c_name}, {spread.c_name}, {lanes})"] = None
        return f"quads_{wanted}_from_{shared.c_name}_{spread.c_name}"

    def joined(self, source: DType, target: DType, lanes: int) -> str:
        """The function that joins two vectors of `lanes` lanes into one, with lanes half as wide."""
        given, wanted = self._name(source, lanes), self._name(target, 2 * lanes)
        evens = ", ".join(str(2 * lane) for lane in range(2 * lanes))
        self._lines[f"TM_JOIN({wanted}, {given}, {evens})"] = None
        return f"{wanted}_from_2_{given}"


def _between(source: DType, target: DType) -> DType:
    """The intermediate type of a conversion: each step changes the width by at most two, which compilers do well."""
    source = strong(source)
    if source.is_float or target.is_float or max(source.bits, target.bits) == 2 * min(source.bits, target.bits):
        return target
    bits = source.bits * 2 if target.bits > source.bits else source.bits // 2
    return (_SIGNED if source.kind == "i" else _UNSIGNED)[bits]
