"""A scalar type: C's long double, where it has 16 bytes."""

from __future__ import annotations

import ctypes

from tiramisu_py.algorithm import types
from tiramisu_py.algorithm.types import DType
from tiramisu_py.backends.c.expressions.scalar_types import SCALAR_TYPES, ScalarType
from tiramisu_py.backends.mpi.element_types import MPI_TYPES
from tiramisu_py.toolchain.calls.scalar_arguments import C_TYPES

#: Its name is NumPy's; the rest of the package knows its kind and its width.
float128 = DType("float128", "f", 128, "long double")

#: What each backend's table says of it. `types._TYPES` and `types._BY_NAME` find a type by its name.
ENTRIES = (
    (types._BY_NAME, "float128", float128),
    (types._TYPES, "float128", float128),
    (SCALAR_TYPES, float128, ScalarType(suffix="L")),
    (MPI_TYPES, float128, "MPI_LONG_DOUBLE"),
    (C_TYPES, float128, ctypes.c_longdouble),
)
