"""Tensor caches beyond files of one run: page-locked memory, copies of a GPU, parts that stay, records, pipelines."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")

from tests.torch.test_offload import LEAST, batch, check_equal, gradients, layers  # noqa: E402
from tiramisu_py.torch import TensorCache, offload  # noqa: E402
from tiramisu_py.torch.tensor_pool import TensorPool  # noqa: E402
from tiramisu_py.torch.tensor_stores import PAGE, GpuBytes, HostBytes  # noqa: E402


def test_page_locked_memory_has_the_size_of_the_first_step() -> None:
    model, x = layers(), batch()
    expected = gradients(model, x)
    with offload(model, tm.HOST_MAPPED, device="simulator", least=LEAST) as cache:
        sizes, pieces, pool = [], [], cache._store
        assert isinstance(pool, TensorPool)
        for _ in range(3):
            check_equal(gradients(model, x), expected)
            cache.wait()
            sizes.append(cache.reserved)
            pieces.append(pool.pieces)
        assert cache.stored > 0 and cache.live == 0
        assert len(set(sizes)) == 1 and sizes[0] % PAGE == 0 and sizes[0] <= cache.stored + cache.cancelled
        assert pieces[0] > 1 and pieces[1:] == [1, 1]
        assert tm.is_unified(pool._pieces[0][1])


def test_places_reach_over_pieces_and_nothing_moves_while_it_is_in_use() -> None:
    pool, draw = TensorPool("simulator"), np.random.default_rng(0)
    places = [pool.place(PAGE) for _ in range(3)]
    pool.fit()
    assert pool.pieces == 3  # they are in use
    del places
    whole = pool.place(3 * PAGE)
    assert (whole.offset, pool.pieces) == (0, 3)
    data, found = draw.integers(0, 256, 3 * PAGE).astype(np.uint8), np.zeros(3 * PAGE, np.uint8)
    assert pool.store(whole, HostBytes(data)).result(20) and pool.load(whole, HostBytes(found)).result(20)
    np.testing.assert_array_equal(found, data)
    pool.wait()
    del whole
    pool.fit()
    again = pool.place(2 * PAGE + 1)
    assert (pool.pieces, pool.reserved, again.offset) == (1, 3 * PAGE, 0)
    pool.close()


class Cuda:
    """What `GpuBytes` asks of ``torch.cuda``, noted in the order in which it is asked."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, Any]] = []
        cuda = self

        class Event:
            def record(self, stream: Any) -> None:
                cuda.notes.append((f"record on {stream}", self))

        class Side:
            def wait_event(self, event: Any) -> None:
                cuda.notes.append(("wait", event))

            def synchronize(self) -> None:
                cuda.notes.append(("complete", self))

        self.Event, self.side = Event, Side()

    def current_stream(self, device: Any) -> str:
        return f"the stream of {device}"

    @contextmanager
    def stream(self, side: Any) -> Any:
        assert side is self.side
        yield


def test_copies_of_a_gpu_wait_for_what_was_launched_before_and_are_complete_when_they_return() -> None:
    cuda = Cuda()
    flat = torch.arange(100, dtype=torch.uint8)
    held = GpuBytes(flat, cuda, cuda.side, torch.from_numpy)
    ((recorded, event),) = cuda.notes
    assert recorded == "record on the stream of cpu" and held.size == 100
    found = np.zeros(10, np.uint8)
    held.get(5, found)
    np.testing.assert_array_equal(found, np.arange(5, 15))
    held.put(90, found)
    np.testing.assert_array_equal(flat[90:].numpy(), found)
    assert cuda.notes[1:] == [("wait", event), ("complete", cuda.side)] * 2


@pytest.mark.parametrize("is_pool", [False, True])
def test_steps_by_copies_of_a_gpu_have_the_same_gradients(
    is_pool: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, cuda = layers(2), batch(), Cuda()
    expected = gradients(model, x)

    def reached(flat: Any) -> GpuBytes:
        return GpuBytes(flat, cuda, cuda.side, torch.from_numpy)

    def target(_: TensorCache, content: Any) -> tuple[Any, GpuBytes]:
        flat = torch.empty(content.size, dtype=torch.uint8)
        return flat, reached(flat)

    monkeypatch.setattr(TensorCache, "_reached", lambda _, flat: reached(flat))
    monkeypatch.setattr(TensorCache, "_target", target)
    with offload(model, tm.HOST_MAPPED if is_pool else tmp_path, device="simulator", least=LEAST) as cache:
        for _ in range(2):
            check_equal(gradients(model, x), expected)
        cache.wait()
        waits = sum(note == "wait" for note, _ in cuda.notes)
        assert waits == sum(note == "complete" for note, _ in cuda.notes) > 0


def test_the_last_parts_keep_their_tensors(tmp_path: Path) -> None:
    model, x = layers(3), batch()
    expected = gradients(model, x)
    moved = []
    for keep in (0, 1, 3):
        with offload(model, tmp_path, least=LEAST, keep=keep) as cache:
            check_equal(gradients(model, x), expected)
            cache.wait()
            moved.append((cache.stored + cache.cancelled, cache.kept > 0))
    assert moved[0][0] > moved[1][0] > moved[2][0] == 0 and [each[1] for each in moved] == [False, True, True]
    with pytest.raises(tm.ArgumentError, match=r"keep=4 of offload: the model has 3 parts"):
        offload(model, tmp_path, keep=4).__enter__()


def test_what_is_read_first_stays_where_the_backward_pass_follows_at_once(tmp_path: Path) -> None:
    model, x = layers(3), batch()
    expected = gradients(model, x)
    with offload(model, tmp_path, least=LEAST, ahead=2) as cache:
        check_equal(gradients(model, x), expected)
        cache.wait()
        first = cache.stored + cache.cancelled
        check_equal(gradients(model, x), expected)
        cache.wait()
        hidden, out = 128 * 64 * 4, 128 * 32 * 4
        assert cache.kept == out + hidden  # the loss reads the result, then the last layer its input
        assert cache.stored + cache.cancelled == 2 * first - cache.kept
        cache.stage("late")
        for _ in range(2):
            loss = model(x).square().mean()
            cache.stage("between")
            other = model(x).square().mean()  # in between another batch is computed
            cache.stage("late")
            loss.backward()
            other.backward()
        assert not cache.record.firsts["late"] and len(cache.record.firsts[""]) == 2


def test_a_record_is_for_the_same_model_alone(tmp_path: Path) -> None:
    model, x = layers(2), batch()
    expected = gradients(model, x)
    with offload(model, tmp_path, least=LEAST) as cache:
        gradients(model, x)
        gradients(model, x)
        record = cache.record
    assert len(record.orders[""]) > 3
    with offload(model, tmp_path, least=LEAST, record=record) as again:
        assert again.record == record
        check_equal(gradients(model, x), expected)
        assert again.record == record  # the first step asks in the order of those before
    with pytest.raises(tm.ArgumentError, match=r"of another model: its parameter 2.0.weight is not in that one, and"):
        offload(layers(3), tmp_path, record=record).__enter__()
    with pytest.raises(tm.ArgumentError, match=r"its parameter 1.0.weight is of \(64, 32\) there, and not in this one"):
        offload(layers(1), tmp_path, record=record).__enter__()
    with pytest.raises(tm.ArgumentError, match=r"record= of offload is the record of a cache, not 3"):
        offload(model, tmp_path, record=3).__enter__()  # type: ignore[arg-type]


def test_a_pipeline_says_whose_backward_pass_comes_next(tmp_path: Path) -> None:
    model, x = layers(2), batch()
    with offload(model, tmp_path, least=LEAST) as cache:
        for step in range(2):
            losses = []
            for k in range(2):
                cache.stage(f"batch {k}")
                losses.append(model(x).square().mean())
            cache.wait()
            before = cache.loaded
            cache.stage("idle", then="batch 0")
            cache.wait()
            assert (cache.loaded > before) == (step == 1)  # in the first step nobody knows what that asks for
            for loss in reversed(losses):
                loss.backward()


def test_memory_that_saves_none_is_refused() -> None:
    with pytest.raises(tm.ArgumentError, match=r"the model is on the CPU: tm.HOST_MAPPED would copy from memory of"):
        offload(layers(1), tm.HOST_MAPPED).__enter__()
    with pytest.raises(tm.ArgumentError, match=r"Memory.GPU is no store: give a folder, or tm.HOST_MAPPED"):
        offload(layers(1), tm.GPU_MEMORY).__enter__()
