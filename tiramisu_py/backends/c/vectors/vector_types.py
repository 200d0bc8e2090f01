"""The vector types of a source, and their functions for strided and reversed loads.

Elements that are 2, 3 or 4 apart (the channels of a picture) come from that many whole vectors, shuffled: no element is
loaded on its own, and nothing before the first or after the last.
"""

from __future__ import annotations

from tiramisu_py.algorithm.types import DType, int32, strong, uint8, uint16, uint32, uint64
from tiramisu_py.backends.c.runtime_files import RuntimeFile, packaged
from tiramisu_py.backends.c.vectors import idiom_calls as idioms
from tiramisu_py.backends.c.vectors import masks

VECTORS = "tm_vectors.h"
GATHERS = "tm_gathers.h"
#: By the bytes of an element, the largest stride at which shuffles are faster than loads of single elements.
_SHUFFLED = {1: (2, 3, 4), 2: (2, 3, 4), 4: (2, 3)}
#: The vector types for which the header has its own way of loading neighbours.
_NEIGHBOURS = ("float32x4", "float32x8", "float32x16", "uint8x4", "uint8x8", "uint8x16")
#: By the bytes of an element, the lanes of the vectors that processors have an instruction to gather.
_GATHERED = {4: (4, 8, 16), 8: (4, 8)}
#: The lanes of the vectors of bytes that the header gathers by indices in memory.
_BYTES_GATHERED = (16, 32, 64)
_UNSIGNED = {8: uint8, 16: uint16, 32: uint32, 64: uint64}


class VectorTypes:
    """The vector types that a source uses, and how it loads them."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, int], DType] = {}
        self._strides: set[tuple[str, int, int]] = set()
        self._alternating: set[tuple[str, int]] = set()
        self._neighbours: set[tuple[str, int]] = set()
        self._gathers = False
        self._turns: dict[str, tuple[DType, int]] = {}
        self.idioms = idioms.Idioms(self.name)
        self.first = masks.FirstLanes()
        self._numbers = 0

    def number(self) -> int:
        """A number for a variable of an expression, another one each time."""
        self._numbers += 1
        return self._numbers

    def name(self, dtype: DType, lanes: int) -> str:
        """The name of a vector type; a bool is stored as a byte."""
        dtype = uint8 if dtype.is_bool else strong(dtype)
        self._used[dtype.name, lanes] = dtype
        return f"{dtype.name}x{lanes}"

    def load(self, dtype: DType, lanes: int, stride: int) -> str | None:
        """The function that loads elements `stride` apart, or None if single loads are faster."""
        name = self.name(dtype, lanes)
        if stride == 1:
            return f"load_{name}"
        if stride != -1 and stride not in _SHUFFLED.get(dtype.bytes, ()):
            return None
        self._strides.add((name.split("x")[0], lanes, stride))
        return _function(name, stride)

    def alternating(self, dtype: DType, lanes: int) -> str:
        """The function that loads the even lanes from one place and the odd lanes from another."""
        name = self.name(dtype, lanes)
        self.name(dtype, lanes // 2)
        self._alternating.add((name.split("x")[0], lanes))
        return f"load_alternating_{name}"

    def neighbours(self, dtype: DType, lanes: int) -> str:
        """The name of a vector type for which neighbours at computed places are loaded."""
        self._neighbours.add((strong(dtype).name, lanes))
        self.name(int32, lanes)
        return self.name(dtype, lanes)

    @staticmethod
    def neighbour(dtype: DType, lanes: int) -> DType:
        """The type in which such a neighbour is given: bytes are as wide as their indices."""
        return int32 if (dtype, lanes) in [(uint8, n) for n in (4, 8, 16)] else dtype

    def gather(self, dtype: DType, lanes: int) -> str | None:
        """The macro that gathers elements by indices of 32 bits, or None if no processor has an instruction for it."""
        if lanes not in _GATHERED.get(dtype.bytes, ()):
            return None
        self._gathers = True
        return f"TM_GATHER_{dtype.bytes * 8}x{lanes}"

    def gather_by_memory(self, dtype: DType, lanes: int) -> str | None:
        """The macro that gathers elements by indices that follow one another in memory, or None if there is none."""
        if strong(dtype).bytes != 1 or lanes not in _BYTES_GATHERED:
            return None
        self._gathers = True
        return f"TM_GATHER_BY_{dtype.bytes * 8}x{lanes}"

    def in_turn(self, dtype: DType, lanes: int) -> str:
        """The function that makes a vector of the lanes of two, in turn; elements have at most 32 bits."""
        name = self.name(dtype, lanes)
        self.name(dtype, 2 * lanes)
        for bits in (dtype.bits, 2 * dtype.bits):
            self.name(_UNSIGNED[bits], lanes)
        self._turns[name] = (dtype, lanes)
        return f"in_turn_{name}"

    def runtime(self) -> tuple[RuntimeFile, ...]:
        """The headers that the source includes for its vectors, and the headers that these include."""
        more = [
            *([GATHERS] if self._neighbours or self._gathers else ()),
            *([idioms.HEADER] if self.idioms else ()),
            *([masks.HEADER] if self.first else ()),
        ]
        included = packaged("c", VECTORS, *more) if self._used else ()
        return (*included, *(packaged("c", *idioms.FILES[1:], included=False) if self.idioms else ()))

    def declarations(self) -> list[str]:
        """The lines that define the types and the functions."""
        for dtype, lanes, stride in self.idioms.strides():
            self.load(dtype, lanes, stride)
        types = [f"TM_VECTOR({d.c_name}, {t}x{n}, {n})" for (t, n), d in sorted(self._used.items())]
        loads = [line for t, n, stride in sorted(self._strides) for line in _definition(self._used[t, n], n, stride)]
        loads += [line for t, n in sorted(self._alternating) for line in _alternating(self._used[t, n], n)]
        near = [_neighbours(self._used[t, n], n) for t, n in sorted(self._neighbours)]
        turns = [line for name in sorted(self._turns) for line in _in_turn(*self._turns[name])]
        own, others = self.first.declarations(), self.idioms.declarations()
        return [*types, *own, *others, *loads, *self.idioms.loads(), *near, *turns]


def _neighbours(dtype: DType, lanes: int) -> str:
    """The line that defines the function for loads of neighbours."""
    name = f"{dtype.name}x{lanes}"
    if name in _NEIGHBOURS:
        return f"TM_NEIGHBOURS_{name}"
    return f"TM_NEIGHBOURS_OF({dtype.c_name}, {name}, int32x{lanes}, {name})"


def _in_turn(dtype: DType, lanes: int) -> list[str]:
    """The function for the lanes of two vectors in turn: shuffled in one register; else each pair is one element of
    twice the size.
    """
    bits, name, both = dtype.bits, f"{dtype.name}x{lanes}", f"{dtype.name}x{2 * lanes}"
    narrow, wide = f"uint{bits}x{lanes}", f"uint{2 * bits}x{lanes}"
    one, other = (f"__builtin_convertvector(({narrow}){each}, {wide})" for each in ("first", "second"))
    order = ", ".join(f"{lane}, {lanes + lane}" for lane in range(lanes))
    return [
        f"TM_SHUFFLE {both} in_turn_{name}({name} first, {name} second) {{",
        f"  if (sizeof({both}) <= TM_REGISTER) return __builtin_shufflevector(first, second, {order});",
        f"  return ({both})({one} | {other} << {bits});",
        "}",
    ]


def _function(name: str, stride: int) -> str:
    return f"load_reversed_{name}" if stride == -1 else f"load_strided_{stride}_{name}"


def _definition(dtype: DType, lanes: int, stride: int) -> list[str]:
    """The function that loads `lanes` elements `stride` apart."""
    name, c_type = f"{dtype.name}x{lanes}", dtype.c_name
    head = f"TM_SHUFFLE {name} {_function(name, stride)}(const void *place) {{"
    load = f"load_{name}((const {c_type} *)place"
    if stride == -1:
        order = ", ".join(str(lane) for lane in reversed(range(lanes)))
        body = [f"const {name} v = {load} - {lanes - 1});", f"return __builtin_shufflevector(v, v, {order});"]
    else:
        starts = _starts(lanes, stride)
        body = [f"const {name} v0 = {load});"]
        body += [f"const {name} v{k} = {load} + {start});" for k, start in enumerate(starts) if k > 0]
        body += _shuffles(name, lanes, stride, starts)
    return [head, *(f"  {line}" for line in body), "}"]


def _alternating(dtype: DType, lanes: int) -> list[str]:
    """The function that takes lanes from two places in turns."""
    name, half = f"{dtype.name}x{lanes}", f"{dtype.name}x{lanes // 2}"
    order = ", ".join(f"{lane}, {lanes // 2 + lane}" for lane in range(lanes // 2))
    return [
        f"TM_SHUFFLE {name} load_alternating_{name}(const void *even, const void *odd) {{",
        f"  const {half} a = load_{half}(even), b = load_{half}(odd);",
        f"  return __builtin_shufflevector(a, b, {order});",
        "}",
    ]


def _starts(lanes: int, stride: int) -> list[int]:
    """The starts of the whole vectors; none reaches beyond the last element wanted."""
    last = (lanes - 1) * (stride - 1)
    return [min(k * lanes, last) for k in range(stride - 1)] + [last]


def _shuffles(name: str, lanes: int, stride: int, starts: list[int]) -> list[str]:
    """One shuffle for each vector after the first; it fills in the lanes that come from this vector."""
    source = [min(lane * stride // lanes, stride - 1) for lane in range(lanes)]
    found, lines = "v0", []
    for k in range(1, stride):
        order = []
        for lane in range(lanes):
            place = lane * stride - starts[source[lane]]
            earlier = lane if k > 1 else place
            order.append(lanes + place if source[lane] == k else earlier if source[lane] < k else 0)
        target = f"s{k}" if k < stride - 1 else "result"
        lines.append(f"const {name} {target} = __builtin_shufflevector({found}, v{k}, {', '.join(map(str, order))});")
        found = target
    return [*lines, "return result;"]
