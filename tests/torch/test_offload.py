"""Activations of PyTorch models in files: the same gradients, fewer bytes in memory, nothing left behind."""

from __future__ import annotations

import errno
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from tiramisu_py.torch import offload  # noqa: E402
from tiramisu_py.torch.tensor_stores import HostBytes  # noqa: E402

LEAST = 2**12


def layers(count: int = 4) -> Any:
    torch.manual_seed(0)
    made = [
        torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)) for _ in range(count)
    ]
    return torch.nn.Sequential(*made)


def batch() -> Any:
    return torch.randn(128, 32, generator=torch.Generator().manual_seed(1))


def gradients(model: Any, x: Any, times: int = 1) -> list[Any]:
    model.zero_grad()
    loss = model(x).square().mean()
    for k in range(times):
        loss.backward(retain_graph=k + 1 < times)
    return [each.grad.clone() for each in model.parameters()]


def check_equal(found: list[Any], expected: list[Any]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_gradients_have_the_same_bits_and_nothing_stays(tmp_path: Path) -> None:
    model, x = layers(), batch()
    expected = gradients(model, x)
    with offload(model, tmp_path, least=LEAST) as cache:
        for _ in range(3):
            check_equal(gradients(model, x), expected)
            assert cache.live == 0
        assert cache.stored > 0 and not list(tmp_path.iterdir())
        assert cache.stored + cache.cancelled >= cache.loaded
    check_equal(gradients(model, x), expected)


def test_a_storage_is_written_once(tmp_path: Path) -> None:
    x = torch.randn(64, 64, requires_grad=True)
    with offload(torch.nn.Identity(), tmp_path, least=LEAST) as cache:
        y = x.exp()  # saves its result
        z = (y * y.T).sum() + (y.view(-1) * 2.0).square().sum()
        z.backward()
        cache.close()
        assert cache.stored + cache.cancelled <= 3 * 64 * 64 * 4  # y, and two results: not each of the parts of y
    again = x.detach().clone().requires_grad_()
    y = again.exp()
    ((y * y.T).sum() + (y.view(-1) * 2.0).square().sum()).backward()
    assert torch.equal(x.grad, again.grad)


def test_parts_of_a_storage_are_stored_alone(tmp_path: Path) -> None:
    whole = torch.randn(256, 64)
    weight = torch.randn(64, 64, requires_grad=True)
    with offload(torch.nn.Identity(), tmp_path, least=LEAST) as cache:
        part = whole[3:35, ::2]
        (part @ weight[:32]).square().sum().backward()
        cache.close()
        assert cache.stored + cache.cancelled < 4 * 256 * 64
    found, weight.grad = weight.grad, None
    (whole[3:35, ::2] @ weight[:32]).square().sum().backward()
    assert torch.equal(found, weight.grad)


def test_parameters_and_small_tensors_stay(tmp_path: Path) -> None:
    model = torch.nn.Linear(64, 64)
    x = torch.randn(4, 64)
    with offload(model, tmp_path, least=LEAST) as cache:
        (model(x) @ model.weight.T).sum().backward()
        cache.close()
        assert cache.stored == cache.loaded == cache.forwarded == 0


def test_a_change_in_place_is_an_error_or_the_right_gradient(tmp_path: Path) -> None:
    for wait in (False, True):
        x = torch.randn(64, 64, requires_grad=True)
        with offload(torch.nn.Identity(), tmp_path, least=LEAST) as cache:
            y = x.exp()
            if wait:
                cache.close()  # it is written, and verified
            y.add_(1)
            if wait:
                y.sum().backward()
                assert torch.equal(x.grad, x.detach().exp())
            else:
                try:
                    y.sum().backward()
                except RuntimeError as error:
                    assert "modified by an inplace operation" in str(error)
                else:
                    assert torch.equal(x.grad, x.detach().exp())


def test_retained_graphs_and_second_backwards(tmp_path: Path) -> None:
    model, x = layers(2), batch()
    expected = gradients(model, x, times=2)
    with offload(model, tmp_path, least=LEAST):
        check_equal(gradients(model, x, times=2), expected)
        model.zero_grad()
        loss = model(x).square().mean()
    loss.backward()  # the graph outlives the cache
    check_equal([each.grad for each in model.parameters()], gradients(model, x))


def test_checkpoints_store_their_inputs_and_keep_what_they_compute_again(tmp_path: Path) -> None:
    model, x = layers(3), batch()
    expected = gradients(model, x)
    with offload(model, tmp_path, least=LEAST) as cache:
        model.zero_grad()
        y = x
        for each in model:
            y = checkpoint(each, y, use_reentrant=False)
        y.square().mean().backward()
        check_equal([each.grad for each in model.parameters()], expected)
        cache.close()
        assert cache.stored + cache.cancelled <= 4 * y.nbytes


def test_micro_batches_have_records_of_their_own(tmp_path: Path) -> None:
    model, x = layers(2), batch()
    model.zero_grad()
    for _ in range(2):
        model(x).square().mean().backward()
    expected = [each.grad.clone() for each in model.parameters()]
    with offload(model, tmp_path, least=LEAST) as cache:
        for _ in range(2):
            model.zero_grad()
            losses = []
            for k in range(2):
                cache.stage(f"batch {k}")
                losses.append(model(x).square().mean())
            for loss in reversed(losses):
                loss.backward()
            check_equal([each.grad for each in model.parameters()], expected)


def test_a_slow_disk_keeps_the_later_parts_in_memory(tmp_path: Path) -> None:
    model, x = layers(4), batch()
    expected = gradients(model, x)
    with offload(model, tmp_path, least=LEAST, adapt=True) as cache:
        check_equal(gradients(model, x), expected)
        cache._kept_from = 1  # what a disk that is slow enough leads to: see offload_choice
        before = cache.stored + cache.cancelled
        check_equal(gradients(model, x), expected)
        assert cache.kept > 0 and cache.stored + cache.cancelled > before


def test_a_disk_that_dies_ends_training_after_right_gradients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = layers(2), batch()
    expected = gradients(model, x)

    begun = threading.Event()

    def broken(*_: object) -> int:
        begun.set()
        raise OSError(errno.EIO, "input/output error")

    with offload(model, tmp_path, least=LEAST) as cache:
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", broken)
            try:
                model.zero_grad()
                loss = model(x).square().mean()
                assert begun.wait(60)  # a store has begun before the backward pass makes it superfluous
                loss.backward()
                check_equal([each.grad for each in model.parameters()], expected)
            except tm.KernelError as error:
                assert "cannot be written to" in str(error)
            cache.close()
        with pytest.raises(tm.KernelError, match=r"cannot be written to: .*input/output error"):
            gradients(model, x)


def test_what_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    model = layers(1)
    with offload(model, tmp_path), pytest.raises(tm.CallError, match="second cache: one is open for Sequential"):
        offload(model, tmp_path).__enter__()
    with pytest.raises(tm.ArgumentError, match=r"gone does not exist"):
        offload(model, tmp_path / "gone").__enter__()
    with pytest.raises(tm.ArgumentError, match=r"takes a torch.nn.Module and a folder, not str"):
        offload(str(tmp_path), model).__enter__()
    for name in ("least", "ahead"):
        with pytest.raises(tm.ArgumentError, match=f"{name}=0 of offload is to be a whole number from 1"):
            offload(model, tmp_path, **{name: 0}).__enter__()
    with pytest.raises(tm.ArgumentError, match=r"0\.2\.bias is on meta"):
        offload(layers(1).to("meta"), tmp_path).__enter__()
    with offload(model, tmp_path, least=LEAST) as cache:
        cache._process = -1
        with pytest.raises(tm.KernelError, match="a process was forked with an open offload"):
            gradients(model, batch())


def test_tensors_that_an_earlier_cache_has_seen_are_themselves(tmp_path: Path) -> None:
    model, x = layers(2), batch()
    expected = gradients(model, x)
    for _ in range(2):  # the input's storage is the same in both, and those of the model are not
        with offload(model, tmp_path, least=LEAST):
            for _ in range(2):
                check_equal(gradients(model, x), expected)


class Region(torch.autograd.Function):  # type: ignore[misc]
    """Products and their squares, one after another, as one node of the graph: so torch.compile makes a region."""

    @staticmethod
    def forward(ctx: Any, x: Any, *weights: Any) -> Any:
        saved = []
        for weight in weights:
            y = x @ weight
            saved += [x, y]
            x = y * y
        ctx.save_for_backward(*saved)
        ctx.weights = weights
        return x

    @staticmethod
    def backward(ctx: Any, *given: Any) -> Any:
        (d,), saved, found = given, ctx.saved_tensors, []
        for weight, x, y in reversed([*zip(ctx.weights, saved[::2], saved[1::2], strict=True)]):
            d = d * y + d * y
            found.append(x.T @ d)
            d = d @ weight.T
        return (None, *reversed(found))


class Tower(torch.nn.Module):  # type: ignore[misc]
    """The layers of `Region`, which PyTorch differentiates one by one unless they are one."""

    def __init__(self, count: int, is_one: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weights = torch.nn.ParameterList([torch.randn(32, 32) / 8 for _ in range(count)])
        self.is_one = is_one

    def forward(self, x: Any) -> Any:
        if self.is_one:
            return Region.apply(x, *self.weights)
        for weight in self.weights:
            y = x @ weight
            x = y * y
        return x


class Loaded:
    """The bytes of the tensors that a cache has read, and that are still there."""

    def __init__(self) -> None:
        self.bytes = self.most = 0

    def target(self, content: Any) -> tuple[Any, HostBytes]:
        """As `TensorCache._target`, in memory that says when it is gone."""
        room = np.empty(content.size, np.uint8)
        self.bytes += room.nbytes
        self.most = max(self.most, self.bytes)
        weakref.finalize(room, self.left, room.nbytes)
        return torch.from_numpy(room), HostBytes(room)

    def left(self, size: int) -> None:
        self.bytes -= size


def test_a_region_that_is_one_node_has_all_its_tensors_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers one by one have those that are read, and those that are fetched ahead."""
    x, count, most = batch(), 6, {}
    plain = gradients(Tower(count, is_one=False), x)
    for is_one in (False, True):
        loaded = Loaded()
        model = Tower(count, is_one)
        with offload(model, tmp_path, least=LEAST, ahead=1) as cache:
            monkeypatch.setattr(cache, "_target", loaded.target)
            loss = model(x).square().mean()
            cache.wait()  # all is in the file, and nothing in memory
            loss.backward()
            check_equal([each.grad for each in model.parameters()], plain)
            cache.wait()
            assert loaded.bytes == 0 and cache.loaded == (2 * count + 1) * x.nbytes  # each once, in the first step too
        most[is_one] = loaded.most // x.nbytes
    assert most[True] == 2 * count > 4 >= most[False]
