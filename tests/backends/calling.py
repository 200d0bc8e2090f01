"""Calls of compiled functions through ctypes; run alone, one in a process that imports little, under sanitisers."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np


def raw_call(library: ctypes.CDLL, name: str, params: Sequence[int], values: Any) -> int:
    """Call with arguments in order: arrays, None, or NumPy scalars."""
    passed = [ctypes.c_int64(param) for param in params]
    for value in values:
        if value is None:
            passed.append(ctypes.c_void_p(None))
        elif isinstance(value, np.ndarray) and value.ndim > 0:
            passed.append(ctypes.c_void_p(value.ctypes.data))
        else:
            array = np.asarray(value)
            kind = np.dtype(np.uint16) if array.dtype in (ml_dtypes.bfloat16, np.float16) else array.dtype
            passed.append(np.ctypeslib.as_ctypes_type(kind)(array.view(kind)[()].item()))
    return int(getattr(library, name)(*passed))


def main(library: str, name: str, params: str, given: str, found: str) -> int:
    """Call a function of a library with the arrays of one file, and write them to another."""
    arrays = dict(np.load(given))
    code = raw_call(ctypes.CDLL(library), name, json.loads(params), arrays.values())
    np.savez(found, **arrays)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
