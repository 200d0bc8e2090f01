"""Each backend's table of scalar types: there is an entry for each type, and it says of it what is true."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping

import numpy as np
import pytest

from tiramisu_py.algorithm.types import STRONG, DType
from tiramisu_py.backends.c.expressions.literals import literal
from tiramisu_py.backends.c.expressions.scalar_types import SCALAR_TYPES
from tiramisu_py.backends.cuda.simulated import KERNEL_HEADERS
from tiramisu_py.backends.mpi.element_types import MPI_TYPES
from tiramisu_py.toolchain.calls.scalar_arguments import C_TYPES


@pytest.mark.parametrize("table", [SCALAR_TYPES, MPI_TYPES, C_TYPES], ids=["C", "MPI", "ctypes"])
def test_a_table_has_all_scalar_types_and_nothing_else(table: Mapping[DType, object]) -> None:
    assert list(table) == list(STRONG)


@pytest.mark.parametrize("dtype", STRONG, ids=str)
def test_an_element_has_the_same_size_everywhere(dtype: DType) -> None:
    assert ctypes.sizeof(C_TYPES[dtype]) == dtype.numpy.itemsize
    bits = re.search(r"INT(\d+)_T", MPI_TYPES[dtype])
    assert bits is None or int(bits[1]) == 8 * dtype.numpy.itemsize
    stored = re.search(r"int(\d+)_t", SCALAR_TYPES[dtype].stored)
    assert stored is None or int(stored[1]) == 8 * dtype.numpy.itemsize


@pytest.mark.parametrize("dtype", [dtype for dtype in STRONG if dtype.is_integer], ids=str)
def test_the_least_and_the_largest_integer_are_written_as_c_reads_them(dtype: DType) -> None:
    """An int is an int: a literal that is none has a suffix, or is in a macro; the least is no negated literal."""
    limits = np.iinfo(dtype.numpy)
    least, most = literal(int(limits.min), dtype).text, literal(int(limits.max), dtype).text
    assert (most == str(limits.max)) == (limits.max < 2**31)
    assert least == (f"{dtype.name.upper()}_MIN" if limits.min <= -(2**31) else literal(int(limits.min), dtype).text)
    assert most.startswith(("UINT64_C(", "INT64_C(")) == (limits.max >= 2**63 - 1)


@pytest.mark.parametrize("dtype", STRONG, ids=str)
def test_the_header_of_kernels_defines_each_type_that_is_no_word_of_the_language(dtype: DType) -> None:
    text = "".join(header.read_text() for header in KERNEL_HEADERS)
    own = dtype.c_name in ("bool", "float", "double")
    assert own or re.search(rf"(typedef [\w ]+|struct (\w+\([^)]*\) )?){dtype.c_name}\b", text), dtype
