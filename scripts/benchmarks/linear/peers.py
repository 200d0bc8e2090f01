"""The others of `scripts/bench linear`: NumPy with its OpenBLAS, SciPy, MKL, PyTorch and numba, if installed."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[], object]
Given = Mapping[str, Array]
Maker = Callable[[Given, Array], Run]
ROW_MAJOR, AS_STORED, ONE_OFFSET = 101, 111, 173  # constants of CBLAS


# -- NumPy and SciPy


def numpy_product(given: Given, out: Array) -> Run:
    """One product, or many, in OpenBLAS if they are large."""
    return partial(np.matmul, given["A"], given["B"], out=out)


def numpy_softmax(given: Given, out: Array) -> Run:
    """In four sweeps."""
    x = given["x"]

    def run() -> None:
        np.subtract(x, x.max(1, keepdims=True), out=out)
        np.exp(out, out=out)
        np.divide(out, out.sum(1, keepdims=True), out=out)

    return run


def numpy_layer_norm(given: Given, out: Array) -> Run:
    """In several sweeps."""
    x, scale, shift = given["x"], given["scale"], given["shift"]

    def run() -> None:
        np.subtract(x, x.mean(1, keepdims=True), out=out)
        factor = 1 / np.sqrt(np.square(out).mean(1, keepdims=True) + np.float32(1e-5))
        np.multiply(out, factor, out=out)
        np.multiply(out, scale, out=out)
        np.add(out, shift, out=out)

    return run


def numpy_convolution(given: Given, out: Array) -> Run:
    """One product for each of the nine neighbours."""
    picture, weights, bias = given["picture"], given["weights"], given["bias"]
    rows, columns = picture.shape[1:3]

    def run() -> None:
        wide = np.pad(picture, ((0, 0), (1, 1), (1, 1), (0, 0)))
        out[...] = bias
        for dy in range(3):
            for dx in range(3):
                np.add(out, wide[:, dy : dy + rows, dx : dx + columns] @ weights[dy, dx], out=out)
        np.maximum(out, 0, out=out)

    return run


def numpy_depthwise(given: Given, out: Array) -> Run:
    """One product of elements for each of the nine neighbours."""
    picture, weights, bias = given["picture"], given["weights"], given["bias"]
    rows, columns = picture.shape[1:3]

    def run() -> None:
        wide = np.pad(picture, ((0, 0), (1, 1), (1, 1), (0, 0)))
        out[...] = bias
        for dy in range(3):
            for dx in range(3):
                np.add(out, wide[:, dy : dy + rows, dx : dx + columns] * weights[dy, dx], out=out)
        np.maximum(out, 0, out=out)

    return run


def numpy_sum(axis: int | None) -> Maker:
    """The sum along an axis."""
    return lambda given, out: partial(np.sum, given["x"], axis=axis, out=out)


def scipy_softmax(given: Given, out: Array) -> Run:
    """`scipy.special.softmax`."""
    softmax = importlib.import_module("scipy.special").softmax

    def run() -> None:
        out[...] = softmax(given["x"], axis=1)

    return run


# -- MKL, called as a C library


def mkl() -> ctypes.CDLL | None:
    """The library of the package `mkl`, or None."""
    folders = [folder / "lib" for folder in (Path(sys.prefix), *map(Path, sys.path))]
    for file in (found for folder in folders for found in sorted(folder.glob("libmkl_rt.so*"))):
        return ctypes.CDLL(str(file), ctypes.RTLD_GLOBAL)
    return None


def mkl_product(given: Given, out: Array) -> Run:
    """`cblas_sgemm` or `cblas_dgemm`; for many products the strided batch."""
    library, a, b = mkl(), given["A"], given["B"]
    assert library is not None
    (*count, n, k), m = a.shape, b.shape[-1]
    single = a.dtype == np.float32
    number = ctypes.c_float if single else ctypes.c_double
    one, zero = number(1), number(0)
    letter = "s" if single else "d"
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (a, b, out)]
    if not count:
        gemm = library[f"cblas_{letter}gemm"]
        return partial(
            gemm, ROW_MAJOR, AS_STORED, AS_STORED, n, m, k, one, pointers[0], k, pointers[1], m, zero, pointers[2], m
        )
    batch = library[f"cblas_{letter}gemm_batch_strided"]
    return partial(
        batch, ROW_MAJOR, AS_STORED, AS_STORED, n, m, k, one, pointers[0], k, n * k, pointers[1], m, k * m, zero,
        pointers[2], m, n * m, count[0],
    )  # fmt: skip


class Description(ctypes.Structure):
    """MKL's description of a matrix: a general one."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diagonal", ctypes.c_int))


GENERAL, AS_IS, BY_ROWS = 20, 10, 101  # constants of MKL's inspector and executor
OFTEN = 1000


def mkl_handle(library: ctypes.CDLL, given: Given, rows: int, columns: int) -> ctypes.c_void_p:
    """A matrix in CSR, as the inspector takes it; it keeps the caller's arrays."""
    handle = ctypes.c_void_p()
    start, column, value = (given[name].ctypes.data for name in ("start", "column", "value"))
    pointers = map(ctypes.c_void_p, (start, start + 4, column, value))
    assert library.mkl_sparse_s_create_csr(ctypes.byref(handle), 0, rows, columns, *pointers) == 0
    return handle


def mkl_sparse_vector(given: Given, out: Array) -> Run:
    """`mkl_sparse_s_mv` of a handle that `mkl_sparse_optimize` has prepared for many calls."""
    library = mkl()
    assert library is not None
    handle, general = mkl_handle(library, given, len(out), len(given["x"])), Description(GENERAL, 0, 0)
    library.mkl_sparse_set_mv_hint(handle, AS_IS, general, OFTEN)
    assert library.mkl_sparse_optimize(handle) == 0
    x, y = (ctypes.c_void_p(each.ctypes.data) for each in (given["x"], out))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    return partial(library.mkl_sparse_s_mv, AS_IS, one, handle, general, x, zero, y)


def mkl_sparse_matrix(given: Given, out: Array) -> Run:
    """`mkl_sparse_s_mm` of a prepared handle."""
    library = mkl()
    assert library is not None
    columns = out.shape[1]
    handle, general = mkl_handle(library, given, len(out), len(given["B"])), Description(GENERAL, 0, 0)
    library.mkl_sparse_set_mm_hint(handle, AS_IS, general, BY_ROWS, columns, OFTEN)
    assert library.mkl_sparse_optimize(handle) == 0
    dense, result = (ctypes.c_void_p(each.ctypes.data) for each in (given["B"], out))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    return partial(
        library.mkl_sparse_s_mm, AS_IS, one, handle, general, BY_ROWS, dense, columns, columns, zero, result, columns
    )


def scipy_sparse(given: Given, out: Array) -> Run:
    """The product of a `csr_matrix`, which allocates its result; it is copied once, to be checked."""
    scipy_matrix = importlib.import_module("scipy.sparse").csr_matrix
    dense = given["x"] if "x" in given else given["B"]
    matrix = scipy_matrix((given["value"], given["column"], given["start"]), (len(out), len(dense)))
    out[...] = matrix @ dense
    return lambda: matrix @ dense


def mkl_bytes(given: Given, out: Array) -> Run:
    """`cblas_gemm_s8u8s32`, which takes the bytes without a sign first if matrices are stored by rows."""
    library, a, b = mkl(), given["A"], given["B"]
    assert library is not None
    (n, k), m, offset = a.shape, b.shape[1], ctypes.c_int32(0)
    one, zero, none = ctypes.c_float(1), ctypes.c_float(0), ctypes.c_int8(0)
    a_, b_, c_ = (ctypes.c_void_p(each.ctypes.data) for each in (a, b, out))
    return partial(
        library.cblas_gemm_s8u8s32, ROW_MAJOR, AS_STORED, AS_STORED, ONE_OFFSET, n, m, k, one, a_, k, none, b_, m, none,
        zero, c_, m, ctypes.byref(offset),
    )  # fmt: skip


# -- PyTorch


def torch_run(make: Callable[[Any, Mapping[str, Any], Any], Run]) -> Maker:
    """A program of PyTorch over the same memory."""

    def made(given: Given, out: Array) -> Run:
        torch = importlib.import_module("torch")
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        torch.set_grad_enabled(False)
        tensors = {name: torch.from_numpy(each) for name, each in given.items()}
        return make(torch, tensors, torch.from_numpy(out))

    return made


def torch_layer_norm(torch: Any, given: Mapping[str, Any], out: Any) -> Run:
    """`layer_norm` allocates its result, in memory that the process keeps: no call waits for new pages, nor copies."""
    keep_freed_memory()
    x, scale, shift = given["x"], given["scale"], given["shift"]
    run = partial(torch.nn.functional.layer_norm, x, (x.shape[1],), scale, shift, 1e-5)
    out.copy_(run())
    return run


def keep_freed_memory() -> None:
    """Let large arrays come from the heap, and the heap stay with the process (of glibc; elsewhere nothing happens)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        most_mapped, trimmed_from = -4, -1
        mallopt(most_mapped, 0)
        mallopt(trimmed_from, 2**31 - 1)


def torch_convolution(torch: Any, given: Mapping[str, Any], out: Any) -> Run:
    """oneDNN's convolution in its channels-last format, then ReLU in place."""
    picture = given["picture"].permute(0, 3, 1, 2)
    weights = given["weights"].permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    bias, result = given["bias"], out.permute(0, 3, 1, 2)

    def run() -> None:
        found = torch.nn.functional.conv2d(picture, weights, bias, padding=1)
        torch.clamp(found, min=0, out=result)

    return run


def torch_planes(torch: Any, given: Mapping[str, Any], out: Any) -> Run:
    """oneDNN's convolution of planes, then ReLU in place."""

    def run() -> Any:
        return torch.relu_(torch.conv2d(given["picture"], given["weights"], given["bias"], padding=1))

    out.copy_(run())
    return run


def torch_fused(depthwise: bool) -> Callable[[Any, Mapping[str, Any], Any], Run]:
    """oneDNN's convolution with ReLU in the same primitive, and weights that it has packed before."""

    def made(torch: Any, given: Mapping[str, Any], out: Any) -> Run:
        picture = given["picture"].permute(0, 3, 1, 2)
        weights = given["weights"].unsqueeze(2) if depthwise else given["weights"]
        groups = picture.shape[1] if depthwise else 1
        layout = ((1, 1), (1, 1), (1, 1), groups)
        dense = weights.permute(3, 2, 0, 1).contiguous().to_mkldnn()
        packed = torch._C._nn.mkldnn_reorder_conv2d_weight(dense, *layout, tuple(picture.shape))
        convolve = torch.ops.mkldnn._convolution_pointwise

        def run() -> Any:
            return convolve(picture, packed, given["bias"], *layout, "relu", [], "")

        out.copy_(run().permute(0, 2, 3, 1))
        return run

    return made


# -- numba


def numba_sums(columns: bool) -> Maker:
    """A loop over rows, with reassociation, so that it runs in vectors."""

    def made(given: Given, out: Array) -> Run:
        numba = importlib.import_module("numba")

        @numba.njit(parallel=True, fastmath=True)  # type: ignore[untyped-decorator]
        def of_rows(x: Array, out: Array) -> None:
            for r in numba.prange(x.shape[0]):
                total = np.float32(0)
                for c in range(x.shape[1]):
                    total += x[r, c]
                out[r] = total

        @numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
        def of_columns(x: Array, out: Array) -> None:
            out[:] = 0
            for r in range(x.shape[0]):
                for c in range(x.shape[1]):
                    out[c] += x[r, c]

        return partial(of_columns if columns else of_rows, given["x"], out)

    return made


def numba_sparse(given: Given, out: Array) -> Run:
    """A loop over the entries of each row, rows on threads."""
    numba = importlib.import_module("numba")

    @numba.njit(parallel=True, fastmath=True)  # type: ignore[untyped-decorator]
    def of_vector(start: Array, column: Array, value: Array, x: Array, out: Array) -> None:
        for i in numba.prange(out.shape[0]):
            total = np.float32(0)
            for p in range(start[i], start[i + 1]):
                total += value[p] * x[column[p]]
            out[i] = total

    @numba.njit(parallel=True, fastmath=True)  # type: ignore[untyped-decorator]
    def of_matrix(start: Array, column: Array, value: Array, dense: Array, out: Array) -> None:
        for i in numba.prange(out.shape[0]):
            out[i, :] = 0
            for p in range(start[i], start[i + 1]):
                for j in range(out.shape[1]):
                    out[i, j] += value[p] * dense[column[p], j]

    dense, run = (given["x"], of_vector) if "x" in given else (given["B"], of_matrix)
    return partial(run, given["start"], given["column"], given["value"], dense, out)


SPARSE: dict[str, Maker] = {"SciPy": scipy_sparse, "MKL": mkl_sparse_vector, "numba": numba_sparse}
PRODUCT: dict[str, Maker] = {
    "NumPy": numpy_product,
    "MKL": mkl_product,
    "PyTorch": torch_run(lambda torch, given, out: partial(torch.matmul, given["A"], given["B"], out=out)),
}
#: What others have for a story, by its name and that of its kind, and the name of the program.
PEERS: dict[str, dict[str, Maker]] = {
    "matmul": PRODUCT,
    "skinny": PRODUCT,
    "batched": PRODUCT,
    "convolution": {
        "NumPy": numpy_convolution,
        "PyTorch": torch_run(torch_convolution),
        "PyTorch, fused": torch_run(torch_fused(depthwise=False)),
    },
    "softmax": {
        "NumPy": numpy_softmax,
        "SciPy": scipy_softmax,
        "PyTorch": torch_run(lambda torch, given, out: partial(torch.softmax, given["x"], 1, out=out)),
    },
    "layer_norm": {"NumPy": numpy_layer_norm, "PyTorch": torch_run(torch_layer_norm)},
    "sums rows": {
        "NumPy": numpy_sum(1),
        "PyTorch": torch_run(lambda torch, given, out: partial(torch.sum, given["x"], 1, out=out)),
        "numba": numba_sums(columns=False),
    },
    "sums all": {
        "NumPy": numpy_sum(None),
        "PyTorch": torch_run(lambda torch, given, out: lambda: out.copy_(given["x"].sum())),
    },
    "sums columns": {
        "NumPy": numpy_sum(0),
        "PyTorch": torch_run(lambda torch, given, out: partial(torch.sum, given["x"], 0, out=out)),
        "numba": numba_sums(columns=True),
    },
    "spmv rows": SPARSE,
    "spmv slices": SPARSE,
    "spmm": {**SPARSE, "MKL": mkl_sparse_matrix},
    "int8_product": {"MKL": mkl_bytes},
    "byte_tiles": {"MKL": mkl_bytes},
    "convolution_nchw": {"PyTorch": torch_run(torch_planes)},
    "depthwise": {"NumPy": numpy_depthwise, "PyTorch, fused": torch_run(torch_fused(depthwise=True))},
}
MODULES = {"NumPy": "numpy", "SciPy": "scipy", "PyTorch": "torch", "numba": "numba"}


def missing() -> list[str]:
    """The programs that are not installed here."""
    absent = [name for name, module in MODULES.items() if importlib.util.find_spec(module) is None]
    return absent if mkl() is not None else [*absent, "MKL"]


def peers(story: str, kind: str = "") -> dict[str, Maker]:
    """The programs that are installed and have what a story computes."""
    absent = missing()
    found = PEERS[f"{story} {kind}".strip()]
    return {name: make for name, make in found.items() if name.split(",")[0] not in absent}
