"""The scalar types in C: how literals are written, and which types the processor does not compute in."""

from __future__ import annotations

from collections.abc import Mapping

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.types import DType
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class ScalarType:
    """How one scalar type is written in C, besides its name (`DType.c_name`).

    `suffix` ends a literal, `wide` is the macro for a literal that does not fit an int, and `least` names the least
    value. A type `stored` as another is computed in float: `functions` are the operators for which the runtime has its
    own functions, and `by_float` converts every value to float before it is rounded to the type.
    """

    suffix: str = ""
    wide: str = ""
    least: str = ""
    stored: str = ""
    functions: tuple[str, ...] = ()
    by_float: bool = False


SCALAR_TYPES: Mapping[DType, ScalarType] = {
    ty.bool_: ScalarType(),
    ty.int8: ScalarType(),
    ty.int16: ScalarType(),
    ty.int32: ScalarType(least="INT32_MIN"),
    ty.int64: ScalarType(wide="INT64_C", least="INT64_MIN"),
    ty.uint8: ScalarType(),
    ty.uint16: ScalarType(),
    ty.uint32: ScalarType(suffix="u"),
    ty.uint64: ScalarType(suffix="u", wide="UINT64_C"),
    ty.float16: ScalarType(stored="uint16_t", functions=("min", "max")),
    ty.bfloat16: ScalarType(stored="uint16_t", by_float=True),
    ty.float32: ScalarType(suffix="f"),
    ty.float64: ScalarType(),
}
