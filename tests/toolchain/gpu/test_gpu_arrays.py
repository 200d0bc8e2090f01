"""Arrays that live on a GPU: made, copied, passed in place, refused with the reason. On the simulator."""

from __future__ import annotations

import ctypes
import gc
import weakref
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from tests.lacking import CXX, without_cxx
from tests.programs.gpu.sources import flip
from tests.selection import covering
from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.expressions import Const
from tiramisu_py.errors import ArgumentError, KernelError
from tiramisu_py.toolchain import DeviceArray, gpu_count, gpu_empty, pinned_empty, to_gpu
from tiramisu_py.toolchain.gpu.available_gpus import as_device
from tiramisu_py.toolchain.gpu.dlpack import CUDA, EXTENSION, ManagedTensor
from tiramisu_py.toolchain.gpu.dlpack import Tensor as DLTensor
from tiramisu_py.toolchain.gpu.foreign import foreign_array

pytestmark = pytest.mark.skipif(without_cxx(), reason=CXX)
SIMULATOR = "simulator"


@pytest.fixture
def x() -> np.ndarray:
    return np.arange(200, dtype=np.float32)


@pytest.fixture
def kernel():
    """A program whose input and output live on the GPU."""
    return flip("resident", on_gpu=True).compile(device=SIMULATOR)


def expected(x: np.ndarray) -> np.ndarray:
    return 2 * np.concatenate([x[i : i + 64][::-1] for i in range(0, len(x), 64)])


def foreign(array: DeviceArray, **changes: object) -> SimpleNamespace:
    """What another library passes."""
    return SimpleNamespace(__cuda_array_interface__={**array.__cuda_array_interface__, **changes}, owner=array)


# -- arrays


DTYPES = ["float32", "uint8", "bool", "float16", ml_dtypes.bfloat16]
SHAPES = [[7], [3, 5], [2, 3, 4], [0, 4], []]


@pytest.mark.parametrize(("dtype", "sizes"), covering(DTYPES, SHAPES), ids=str)
def test_an_array_comes_back_from_the_gpu_as_it_went(dtype, sizes):
    shape = tuple(sizes)
    array = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    there = to_gpu(array, SIMULATOR)
    assert (there.shape, there.dtype, there.size, there.nbytes, there.ndim) == (
        array.shape, array.dtype, array.size, array.nbytes, array.ndim,
    )  # fmt: skip
    back = there.get()
    assert back.dtype == array.dtype and np.array_equal(back, array) and there.device == SIMULATOR


def test_an_array_that_is_not_contiguous_goes_to_the_gpu_in_row_major_order():
    array = np.arange(12).reshape(3, 4).T
    assert np.array_equal(to_gpu(array, SIMULATOR).get(), array)


def test_an_array_is_copied_into_one_of_the_host_and_from_one():
    there, out = gpu_empty((2, 3), ty.int32, SIMULATOR), np.empty((2, 3), np.int32)
    there.set(np.arange(6, dtype=np.int32).reshape(2, 3))
    assert there.get(out) is out and out.sum() == 15
    with pytest.raises(ArgumentError, match=r"shape \(2, 3\)"):
        there.get(np.empty((3, 2), np.int32))
    with pytest.raises(ArgumentError, match="dtype int32"):
        there.set(np.zeros((2, 3)))


def test_numpy_does_not_look_at_device_memory_by_mistake():
    with pytest.raises(TypeError, match=r"\.get\(\)"):
        np.asarray(gpu_empty(3, "float32", SIMULATOR))
    with pytest.raises(TypeError, match=r"no elements on the host: index \.get\(\)"):
        gpu_empty(3, "float32", SIMULATOR)[0]


@pytest.mark.parametrize("shape", [(-1,), (2.5,), -3], ids=str)
def test_a_shape_is_made_of_sizes(shape):
    for make in (gpu_empty, pinned_empty):
        with pytest.raises(ArgumentError, match="shape"):
            make(shape, "float32", SIMULATOR)


def test_memory_is_freed_with_the_array_and_not_before(monkeypatch):
    freed = []
    monkeypatch.setattr("tiramisu_py.toolchain.gpu.runtime.Runtime.free", lambda _, device, place: freed.append(place))
    array = gpu_empty(100, "uint8", SIMULATOR)
    address, interface = array.address, foreign(array)
    del array
    gc.collect()
    assert freed == []
    del interface
    gc.collect()
    assert freed == [address]


def test_more_memory_than_the_gpu_has_is_refused():
    with pytest.raises(KernelError, match=r"memory|MEMORY"):
        gpu_empty((1 << 45,), "uint8", SIMULATOR)


def test_pinned_memory_is_an_array_like_any_other():
    array = pinned_empty((3, 5), np.float32, SIMULATOR)
    array[...] = np.arange(15).reshape(3, 5)
    assert type(array) is np.ndarray and array.flags.c_contiguous and array.flags.writeable and array.sum() == 105
    assert pinned_empty(0, "float64", SIMULATOR).shape == (0,)


def test_pinned_memory_lives_as_long_as_the_last_view_of_it():
    array = pinned_empty((1000,), np.int64, SIMULATOR)
    array[:] = 7
    view, base = array[10:20], array
    while isinstance(base, np.ndarray):
        base = base.base
    owner = weakref.ref(base)
    del array, base
    gc.collect()
    assert owner() is not None and (view == 7).all()
    del view
    gc.collect()
    assert owner() is None


def test_pinned_arrays_are_passed_as_inputs_and_outputs(x):
    kernel = flip().compile(device=SIMULATOR)
    given, y = pinned_empty(200, "float32", SIMULATOR), pinned_empty(200, "float32", SIMULATOR)
    given[:] = x
    assert kernel(2.0, given, y=y) is y and np.array_equal(y, expected(x))


@pytest.mark.skipif(gpu_count() > 0, reason="there is a GPU")
def test_without_a_gpu_the_message_says_what_to_do():
    assert gpu_count() == 0
    for make in (gpu_empty, pinned_empty):
        with pytest.raises(KernelError, match=r'no CUDA driver on this machine.*device="simulator"'):
            make(4, "float32")


# -- arguments


def test_arrays_on_the_gpu_are_used_in_place_and_results_stay_there(kernel, x):
    y = kernel(2.0, to_gpu(x, SIMULATOR))
    assert isinstance(y, DeviceArray) and np.array_equal(y.get(), expected(x))
    out = gpu_empty(200, "float32", SIMULATOR)
    assert kernel(2.0, y, y=out) is out and np.array_equal(out.get(), expected(expected(x)))


def test_arrays_of_another_library_are_used_in_place(kernel, x):
    there, out = to_gpu(x, SIMULATOR), gpu_empty(200, "float32", SIMULATOR)
    given, written = foreign(there), foreign(out)
    assert kernel(2.0, given, y=written) is written and np.array_equal(out.get(), expected(x))


def test_the_stream_that_an_array_is_written_on_is_waited_for(kernel, x, monkeypatch):
    waited = []
    monkeypatch.setattr(
        "tiramisu_py.toolchain.gpu.runtime.Runtime.synchronize", lambda _, device, s: waited.append((device, s))
    )
    there = to_gpu(x, SIMULATOR)
    for stream in (None, 1, 0x7F00):
        kernel(2.0, foreign(there, stream=stream))
    kernel(2.0, foreign(there, version=2))  # says nothing of streams
    assert waited == [(0, 1), (0, 0x7F00), (0, 1)]


def test_the_default_streams_can_be_waited_for(kernel, x):
    for stream in (1, 2):
        assert np.array_equal(kernel(2.0, foreign(to_gpu(x, SIMULATOR), stream=stream)).get(), expected(x))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"typestr": "<f8"}, "x has dtype float64, not float32"),
        ({"shape": (20, 10)}, r"x has 2 dimensions, shape \(20, 10\)"),
        ({"strides": (8,)}, "x is not contiguous in row-major order"),
        ({"mask": 1}, "mask"),
        ({"stream": 0}, "stream is 0"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_by_name(kernel, x, changes, words):
    with pytest.raises(ArgumentError, match=words):
        kernel(2.0, foreign(to_gpu(x, SIMULATOR), **changes))


def test_strides_of_extents_of_one_do_not_matter(kernel):
    one = to_gpu(np.ones(1, np.float32), SIMULATOR)
    assert kernel(2.0, foreign(one, strides=(64,))).get() == 2


def test_an_address_that_is_not_aligned_is_refused(kernel, x):
    there = to_gpu(x, SIMULATOR)
    with pytest.raises(ArgumentError, match="aligned"):
        kernel(2.0, foreign(there, data=(there.address + 2, False), shape=(100,)))


def test_an_output_that_may_not_be_written_is_refused(kernel, x):
    there = to_gpu(x, SIMULATOR)
    with pytest.raises(ArgumentError, match="y is read-only"):
        kernel(2.0, there, y=foreign(gpu_empty(200, "float32", SIMULATOR), data=(there.address, True)))


def test_an_output_may_not_overlap_an_input(kernel, x):
    there = to_gpu(x, SIMULATOR)
    with pytest.raises(ArgumentError, match="shares memory"):
        kernel(2.0, there, y=there)


def test_an_array_of_the_host_is_refused_where_one_on_the_gpu_is_wanted(kernel, x):
    with pytest.raises(ArgumentError, match=r'x lives in the memory of simulator.*tm\.to_gpu\(x, device="simulator"\)'):
        kernel(2.0, x)
    with pytest.raises(ArgumentError, match="of type list"):
        kernel(2.0, [1.0])


def test_an_array_on_the_gpu_is_refused_where_one_of_the_host_is_wanted(x, saxpy):
    there = to_gpu(x, SIMULATOR)
    for program in (flip(), saxpy):
        options = {} if program is saxpy else {"device": SIMULATOR}
        passed = (2.0, there) if program is not saxpy else (2.0, there, x)
        with pytest.raises(ArgumentError, match=r"x is kept in the host's memory.*memory=tm\.GPU_MEMORY.*x\.get\(\)"):
            program.compile(**options)(*passed)


def test_a_bound_call_runs_on_arrays_of_the_gpu(kernel, x):
    there = to_gpu(x, SIMULATOR)
    step = kernel.bound(2.0, there)
    assert np.array_equal(step().get(), expected(x))
    there.set(x + 1)
    assert np.array_equal(step().get(), expected(x + 1))
    with pytest.raises(ArgumentError, match="x is on a GPU, where another library may write it between calls"):
        kernel.bound(2.0, foreign(there))


def test_an_array_on_another_gpu_is_refused(kernel, x):
    with pytest.raises(ArgumentError, match=r"x is on simulator:1, but is used on simulator"):
        kernel(2.0, to_gpu(x, "simulator:1"))


def test_a_program_for_the_second_gpu_takes_arrays_of_the_second_gpu(x):
    kernel = flip("resident", on_gpu=True).compile(device="simulator:1")
    y = kernel(2.0, to_gpu(x, "simulator:1"))
    assert y.device == "simulator:1" and np.array_equal(y.get(), expected(x))


def test_the_simulator_has_as_many_gpus_as_a_device_number_asks_for(x):
    assert np.array_equal(to_gpu(x, "simulator:5").get(), x)
    with pytest.raises(KernelError, match="device"):
        to_gpu(x, "simulator:900")


def test_declared_facts_are_verified_on_the_gpu_too(x):
    from_zero = {"values": (Const(0, ty.int64), Const(100, ty.int64))}
    kernel = flip("facts", on_gpu=True, facts=from_zero).compile(device=SIMULATOR)
    with pytest.raises(ArgumentError, match="declared to be at least 0 and less than 100"):
        kernel(2.0, to_gpu(x, SIMULATOR))


# -- DLPack


class Tensor:
    """What PyTorch or JAX pass: a capsule around a DLTensor on a CUDA device."""

    def __init__(self, address: int, shape: tuple[int, ...], code: int = 2, bits: int = 32, device: int = 0) -> None:
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.tensor = DLTensor(address, 2, device, len(shape), code, bits, 1, self.shape, None, 0)
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(self, **_options: object) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def test_a_dlpack_tensor_is_read_without_a_copy():
    found = foreign_array(Tensor(0x1000, (3, 4)))
    assert (found.shape, found.dtype, found.address, found.strides) == ((3, 4), np.float32, 0x1000, None)
    assert foreign_array(Tensor(0x1000, (3,), 4, 16)).dtype == ml_dtypes.bfloat16
    assert foreign_array(Tensor(0x1000, (3,), 6, 8)).dtype == np.bool_
    with pytest.raises(ValueError, match="DLPack code 5"):
        foreign_array(Tensor(0x1000, (3,), 5, 64))


def test_a_tensor_of_a_real_gpu_is_refused_by_the_simulator(kernel):
    with pytest.raises(ArgumentError, match="x is on GPU 0, but is used on simulator"):
        kernel(2.0, Tensor(0x1000, (200,)))


# -- handed to other libraries


def consumed(capsule: object) -> ManagedTensor:
    """What a consumer takes out of a capsule; it then renames the capsule."""
    api = ctypes.pythonapi
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", api))
    found = ManagedTensor.from_address(pointer(capsule, b"dltensor"))
    assert rename(capsule, b"used_dltensor") == 0
    return found


def delete(managed: ManagedTensor) -> None:
    """What a consumer does when it is done."""
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(ctypes.addressof(managed))


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [("float32", 2, 32), ("uint8", 1, 8), ("int64", 0, 64), ("bool", 6, 8), (ml_dtypes.bfloat16, 4, 16)],
)
def test_a_consumer_reads_our_array_where_it_is(dtype, code, bits):
    given = np.arange(12).reshape(3, 4).astype(dtype)
    array = to_gpu(given, SIMULATOR)
    tensor = consumed(array.__dlpack__(stream=None, max_version=(1, 0))).tensor
    assert (tensor.data, tensor.ndim, tensor.byte_offset) == (array.address, 2, 0)
    assert (tensor.code, tensor.bits, tensor.lanes) == (code, bits, 1)
    assert tensor.shape[:2] == [3, 4] and not tensor.strides


def test_an_array_lives_until_its_consumer_is_done():
    array = gpu_empty((3,), np.float32, SIMULATOR)
    managed, seen = consumed(array.__dlpack__()), weakref.ref(array)
    del array
    gc.collect()
    assert seen() is not None
    delete(managed)
    gc.collect()
    assert seen() is None


def test_a_capsule_that_nobody_takes_lets_the_array_go():
    array = gpu_empty((3,), np.float32, SIMULATOR)
    capsule, seen = array.__dlpack__(), weakref.ref(array)
    del array
    gc.collect()
    assert seen() is not None
    del capsule
    gc.collect()
    assert seen() is None


def test_the_memory_of_a_gpu_is_cuda_s_and_that_of_the_simulator_is_not():
    array = gpu_empty((3,), np.float32, "simulator:1")
    assert array.__dlpack_device__() == (EXTENSION, 1)
    real = DeviceArray((3,), np.dtype(np.float32), as_device("gpu:1"), 0x1000, None)
    assert real.__dlpack_device__() == (CUDA, 1)
    assert (
        foreign_array(SimpleNamespace(__dlpack__=real.__dlpack__, __dlpack_device__=real.__dlpack_device__)).device == 1
    )


def test_what_dlpack_asks_for_and_we_do_not_do_is_refused():
    array = gpu_empty((3,), np.float32, SIMULATOR)
    with pytest.raises(BufferError, match="in place"):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError, match=r"\.get\(\)"):
        array.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="datetime64"):
        gpu_empty((3,), "datetime64[s]", SIMULATOR).__dlpack__()
