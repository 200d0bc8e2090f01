"""Parameters of PyTorch models in a file between their passes: same bits, fewer bytes in memory, refusals."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import tiramisu_py as tm
from tests.disks import on_disk

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")

from tiramisu_py.torch import offload  # noqa: E402
from tiramisu_py.torch.tensor_weights import FileWeights  # noqa: E402

LEAST = 2**12


def layers(width: int = 64, count: int = 3, bias: bool = True) -> Any:
    torch.manual_seed(0)
    made = [torch.nn.Sequential(torch.nn.Linear(width, width, bias), torch.nn.ReLU(inplace=True)) for _ in range(count)]
    return torch.nn.Sequential(*made)


class Momentum:
    """An optimiser with a state; to import those of PyTorch takes some seconds."""

    def __init__(self, parameters: Any) -> None:
        self.parameters = [*parameters]
        self.moments = [torch.zeros_like(each) for each in self.parameters]

    def zero_grad(self) -> None:
        for each in self.parameters:
            each.grad = None

    def step(self) -> None:
        with torch.no_grad():
            for each, moment in zip(self.parameters, self.moments, strict=True):
                each.sub_(moment.mul_(0.5).add_(each.grad), alpha=1e-2)


def train(model: Any, steps: int = 3, penalty: bool = False, optimisers: Any = Momentum) -> list[Any]:
    """The parameters after some steps, and the last gradients."""
    optimiser = optimisers(model.parameters())
    width = next(model.parameters()).shape[1]
    x = torch.randn(32, width, generator=torch.Generator().manual_seed(1))
    for _ in range(steps):
        optimiser.zero_grad()
        loss = model(x).square().mean()
        if penalty:
            loss = loss + sum(each.square().sum() for each in model.parameters())
        loss.backward()
        optimiser.step()
    found = [each.detach().clone() for each in model.parameters()]
    return [*found, *(each.grad.clone() for each in model.parameters())]


def check_equal(found: list[Any], expected: list[Any]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def resident(folder: str) -> int:
    """The kilobytes of mappings of files of a folder that are in memory."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            counts = os.path.realpath(folder) in line
        elif counts and line.startswith("Rss:"):
            total += int(line.split()[1])
    return total


@pytest.mark.parametrize("optimiser", ["Momentum", pytest.param("Adam", marks=pytest.mark.slow)])
@pytest.mark.parametrize("penalty", [False, True])
def test_an_optimiser_trains_the_same_bits(tmp_path: Path, penalty: bool, optimiser: str) -> None:
    optimisers = Momentum if optimiser == "Momentum" else torch.optim.Adam
    expected = train(layers(), 3, penalty, optimisers)
    model = layers()
    with offload(model, on_disk(tmp_path), least=LEAST, weights=True) as cache:
        found = train(model, 3, penalty, optimisers)
        cache.wait()
        assert cache.weights.size == 3 * 64 * 64 * 4
        assert cache.weights.released == 3 * cache.weights.size
    check_equal(found, expected)
    assert not list(tmp_path.iterdir())
    check_equal(list(model.parameters()), expected[: len(expected) // 2])  # in memory of their own again


def test_between_the_passes_they_are_in_the_file_alone(tmp_path: Path) -> None:
    folder = on_disk(tmp_path)
    model = layers(512, 4, bias=False)
    with offload(model, folder, weights=True) as cache:
        assert resident(folder) >= cache.weights.size // 1024
        loss = model(torch.ones(2, 512)).sum()
        cache.wait()
        assert resident(folder) == 0
        loss.backward()
        assert resident(folder) >= 3 * cache.weights.size // 4 // 1024  # nobody asks for those of the first one
        model(torch.ones(2, 512))
        cache.wait()
        assert resident(folder) == 0
        state = {name: each.clone() for name, each in model.state_dict().items()}
    assert all(torch.equal(each, state[name]) for name, each in model.state_dict().items())
    assert resident(folder) == 0


def test_tied_and_transposed_parameters_are_one_storage(tmp_path: Path) -> None:
    def tied() -> Any:
        model = layers(64, 2)
        model[1][0].weight = model[0][0].weight
        model[0][0].bias = torch.nn.Parameter(torch.randn(128, generator=torch.Generator().manual_seed(2))[::2])
        return model

    expected, model = train(tied()), tied()
    with offload(model, on_disk(tmp_path), least=LEAST, weights=True) as cache:
        assert model[1][0].weight is model[0][0].weight and cache.weights.size == 64 * 64 * 4
        found = train(model)
    check_equal(found, expected)


def test_a_graph_that_outlives_the_cache_has_its_weights(tmp_path: Path) -> None:
    def loss(model: Any) -> Any:
        return model(torch.ones(32, 64)).square().mean()

    expected, model = layers(), layers()
    loss(expected).backward()
    with offload(model, on_disk(tmp_path), least=LEAST, weights=True):
        kept = loss(model)
    kept.backward()
    check_equal([each.grad for each in model.parameters()], [each.grad for each in expected.parameters()])


def test_a_disk_that_dies_is_said_by_the_next_pass_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    model, x = layers(), torch.ones(32, 64)
    opened = offload(model, on_disk(tmp_path), least=LEAST, weights=True)
    cache = opened.__enter__()
    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(tm.KernelError, match=r"(cannot|could not) be written.*input/output error"):
        model(x)
        cache.wait()
    with pytest.raises(tm.KernelError, match=r"cannot be written to: .*input/output error"):
        model(x)
    with pytest.raises(tm.KernelError, match=r"weights in .* could not be written: .*input/output error"):
        cache.wait()
    with pytest.raises(tm.KernelError, match=r"could not be written: .*; those of the model may be wrong"):
        opened.__exit__(None, None, None)
    assert all(each.untyped_storage().nbytes() for each in model.parameters())


@pytest.mark.parametrize("weights", [True, False])
def test_a_parameter_that_is_changed_before_the_backward_pass_is_the_error_of_pytorch(
    weights: bool, tmp_path: Path
) -> None:
    model = layers()
    with offload(model, on_disk(tmp_path), least=LEAST, weights=weights):
        kept = model(torch.ones(32, 64)).square().mean()
        with torch.no_grad():
            for each in model.parameters():
                each.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation: a tensor of shape"):
            kept.backward()


def test_weights_that_are_not_on_the_host_are_refused_by_name(tmp_path: Path) -> None:
    model = layers().to("meta")  # as it is with a model on a GPU, whose activations offload takes
    with pytest.raises(tm.ArgumentError, match=r"weights=True of offload: 0.0.weight is on meta, .* train on the CPU"):
        FileWeights(model, on_disk(tmp_path), LEAST)
    assert all(each.device.type == "meta" for each in model.parameters()) and not list(tmp_path.iterdir())


def test_what_cannot_be_mapped_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tm.ArgumentError, match=r"weights=True of offload maps parameters from a file: give a folder"):
        offload(layers(), tm.HOST_MAPPED, weights=True, device="simulator").__enter__()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    model = layers()
    before = [each.data_ptr() for each in model.parameters()]
    with monkeypatch.context() as patched, pytest.raises(tm.ArgumentError, match="has no room for 49152 more bytes"):
        patched.setattr(os, "posix_fallocate", full)
        offload(model, on_disk(tmp_path), least=LEAST, weights=True).__enter__()
    assert before == [each.data_ptr() for each in model.parameters()]
    with offload(model, on_disk(tmp_path), weights=True) as cache:  # all are smaller than `least`
        train(model)
        assert cache.weights.size == 0
