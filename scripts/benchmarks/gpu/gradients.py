"""Steps of gradients on a GPU: right, and timed beside PyTorch, eager and compiled, on tensors of the same GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tiramisu_py as tm
from benchmarks.gpu.reductions import Row, Run, Timed, torch
from benchmarks.gradients.on_gpus import on_gpu
from benchmarks.gradients.peers import torch_step
from benchmarks.gradients.programs import PROGRAMS, Differentiated

#: The sums of each program whose terms are many and whose values are few: blocks share them.
MEASURED: Mapping[str, tuple[str, ...]] = {
    "conv2d": (),
    "softmax_loss": ("top", "whole"),
    "layer_norm": ("mean_sum", "var_sum", "var_squares", "d_scale", "d_shift", "d_mean", "d_var", "d_var_mean"),
    "heat": (),
}
THREADS = 128
#: How many times as fast as PyTorch, eager and compiled, steps are to be.
GOALS = {"PyTorch": "1.50", "torch.compile": "1.00"}
LARGE = {
    "conv2d": {"B": 32, "C": 64, "F": 64, "N": 64, "M": 64},
    "softmax_loss": {"N": 16384, "K": 1024},
    "layer_norm": {"N": 16384, "K": 1024},
    "heat": {"T": 50, "N": 2048, "M": 2048},
}


def step_of(program: Differentiated, threads: int = THREADS) -> tm.Function:
    """The step of a program, on arrays that the caller has on the GPU."""
    step = tm.vjp(program.make(tm.GPU_MEMORY), wrt=program.wrt).step
    for name in step.algorithm.outputs:
        step[name].store_in(tm.GPU_MEMORY)
    on_gpu(step, threads, MEASURED[program.name])
    return step


def arguments(program: Differentiated, sizes: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs of a program, and the weight of its output."""
    given = program.arguments(sizes)
    f = program.make()
    value = f.compile()(**given)
    return given, program.weights({f.algorithm.outputs[0]: value})


def checked(device: str) -> list[Row]:
    """Each step at a small size, on arrays of the GPU, against `evaluate()`."""
    rows = list[Row]()
    for name in MEASURED:
        program = PROGRAMS[name]
        given, weights = arguments(program, program.small)
        step = step_of(program, 16)
        found = step.compile(device=device)(**_on_device({**given, **weights}, device))
        right = step.evaluate(**given, **weights)
        close = all(np.allclose(mine.get(), one, rtol=1e-4, atol=1e-5) for mine, one in zip(found, right, strict=True))
        rows.append([name, "values and gradients", "right" if close else "WRONG"])
    return rows


def timings(device: str, small: bool, timed: Timed) -> list[Row]:
    """The steps beside PyTorch."""
    rows, known = list[Row](), torch()
    for name in MEASURED:
        program = PROGRAMS[name]
        sizes = program.small if small else LARGE[name]
        given, weights = arguments(program, sizes)
        kernel = step_of(program).compile(device=device, fast=("contract",))
        placed = _on_device({**given, **weights}, device)
        out = dict(zip(kernel.function.outputs, kernel(**placed), strict=True))
        ours: Run = lambda kernel=kernel, placed=placed, out=out: kernel(**placed, **out)  # noqa: E731
        if known is None:
            rows.append([f"step of {name}", f"{timed(ours, ours)[0] * 1e3:.3f}", "", "no PyTorch", "", ""])
            continue
        for peer, run in _peers(known, program, given, *weights.values()).items():
            mine, other = timed(ours, run)
            rows.append([f"step of {name}", f"{mine * 1e3:.3f}", "", peer, f"{other / mine:.2f}", GOALS[peer]])
    return rows


def _on_device(given: Mapping[str, Any], device: str) -> dict[str, Any]:
    return {
        name: tm.to_gpu(each, device=device) if isinstance(each, np.ndarray) else each for name, each in given.items()
    }


def _peers(known: Any, program: Differentiated, given: dict[str, Any], weight: Any) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for peer in GOALS:
        run = torch_step(program.name, given, program.wrt, weight, compiled=peer == "torch.compile", device="cuda")
        found[peer] = lambda run=run: (run(), known.cuda.synchronize())
    return found
