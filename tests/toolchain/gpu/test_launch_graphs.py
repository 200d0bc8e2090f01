"""compile(graph=True): what a call gives its GPUs becomes CUDA graphs."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm
from tests.lacking import CXX, without_cxx
from tests.programs.gpu.cooperative_blur import G, H, blur, picture

pytestmark = pytest.mark.skipif(without_cxx(), reason=CXX)
(N,) = tm.params("N")
i, b, t = tm.iters("i b t")


def steps(streams: bool, memory: tm.Memory = tm.HOST, host: bool = False) -> tm.Function:
    """(2 x) (x + 3), in three kernels; `host` computes the second factor."""
    f = tm.Function("steps", params=[N], assume="N >= 1")
    x = f.input("x", tm.float64, [N], memory=memory)
    twice = f.computation("twice", {i: N}, 2 * x[i])
    more = f.computation("more", {i: N}, twice[i] - x[i] + 3)
    last = f.computation("last", {i: N}, twice[i] * more[i])
    f.outputs(last)
    for number, each in enumerate((twice, last) if host else (twice, more, last)):
        each.split(i, 32, b, t).tag_gpu(blocks=[b], threads=[t], stream=number if streams else 0)
    f.derive_transfers()
    return f


@pytest.mark.parametrize("streams", [False, True])
def test_a_call_on_device_arrays_launches_one_graph(streams: bool) -> None:
    f = steps(streams, tm.GPU_MEMORY)
    kernel = f.compile(device="simulator", sanitize=True, graph=True)
    for seed, size in enumerate((100, 7, 100, 333)):
        x = np.random.default_rng(size).random(size)
        kernel = kernel.seeded(seed, "lazy" if seed % 2 else "shuffled")
        found = kernel(tm.to_gpu(x, device="simulator"))
        np.testing.assert_array_equal(np.asarray(found), 2 * x * (2 * x - x + 3))
        assert kernel.launches == tm.Launches(kernels=3, graphs=1)


def test_graphs_end_where_the_host_takes_part() -> None:
    f = steps(streams=False, host=True)
    plain, kernel = f.compile(device="simulator"), f.compile(device="simulator", sanitize=True, graph=True)
    for seed in range(6):
        x = np.random.default_rng(seed).random(90)
        np.testing.assert_array_equal(kernel.seeded(seed)(x), plain(x))
    assert kernel.seeded(1)(x) is not None
    assert plain.launches == tm.Launches(kernels=2, graphs=0)


@pytest.mark.parametrize("timing", ["lazy", "shuffled", "threads"])
def test_a_cooperative_blur_on_several_streams_is_right(timing: str) -> None:
    f, image = blur((G, H)), picture()
    kernel = f.compile(device="simulator", sanitize=True, graph=True)
    for seed in range(5):
        ran = kernel.seeded(seed, timing)
        np.testing.assert_array_equal(ran(image, G=4, H=7), f.evaluate(image, G=4, H=7))
        assert ran.launches.graphs >= 1


def test_what_has_no_graphs_is_refused() -> None:
    f = tm.Function("cores", params=[N])
    x = f.input("x", tm.float64, [N])
    f.outputs(f.computation("y", {i: N}, x[i] + 1))
    with pytest.raises(tm.ArgumentError, match="graph=True, and cores has no kernels of a GPU: leave it out"):
        f.compile(graph=True)
    with pytest.raises(tm.ArgumentError, match="cores uses no GPU: it launches no kernels"):
        _ = f.compile().launches
    with pytest.raises(tm.ArgumentError, match="steps has no launches: it has not been called in this thread"):
        _ = steps(streams=False).compile(device="simulator", graph=True).launches
    with pytest.raises(tm.ArgumentError, match="graph=True and trace=True: a graph has no times for its kernels"):
        steps(streams=False).compile(device="simulator", graph=True, trace=True)
    with pytest.raises(tm.ArgumentError, match="graph='yes': give True or False"):
        steps(streams=False).compile(device="simulator", graph="yes")  # type: ignore[arg-type]
