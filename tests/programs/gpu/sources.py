"""Programs that use a GPU, written by hand: a kernel file, and host code over the runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import islpy as isl

from tiramisu_py.algorithm import types as ty
from tiramisu_py.algorithm.declarations import Algorithm, Input
from tiramisu_py.algorithm.expressions import Param
from tiramisu_py.backends.c import Emitted
from tiramisu_py.backends.cuda.signature import KernelParameter, KernelSignature
from tiramisu_py.backends.cuda.simulated import KERNEL_HEADERS, RUNTIME_HEADERS, RUNTIME_LIBRARIES, RUNTIME_SOURCES
from tiramisu_py.ir import ArrayArgument, Block, LoopFunction, OnGpus, ScalarArgument
from tiramisu_py.toolchain import Kernel, compile_function

N = Param("N")

KERNELS = """#include "tm_kernel.h"
TM_KERNEL void TM_LAUNCH_BOUNDS(64) NAME_flip(int64_t N, float a, const float *TM_RESTRICT x, float *TM_RESTRICT y) {
  const int64_t start = (int64_t)blockIdx.x * 64, t = (int64_t)threadIdx.x;
  TM_SHARED(float, tile, [64]);
  if (start + t < N) tile[t] = x[start + t];
  BARRIER
  const int64_t from = (N - start < 64 ? N - start : 64) - 1 - t;
  if (from >= 0) y[start + t BEYOND] = a * tile[from];
}
"""

HEADER = """#ifndef NAME_H
#define NAME_H
#include <stdint.h>
int NAME(int64_t N, float a, const float *x, float *y);
const char *NAME_last_error(void);
void NAME_use_device(int first);
#endif
"""

HOST = """#include "NAME.h"
#include <stddef.h>
#include <stdio.h>
#include "tm_gpu.h"
extern const tm_gpu_program NAME_program;
static _Thread_local int first_device;
static _Thread_local char message[1024];
const char *NAME_last_error(void) { return message; }
void NAME_use_device(int first) { first_device = first; }
static int end(tm_gpu_call *gpu, int code) {
  const int ended = gpu == NULL ? code : tm_gpu_end(gpu, code);
  if (ended >= 101) snprintf(message, sizeof message, "NAME: %s", tm_gpu_error());
  return ended;
}
#define TM_TRY(...) do { const int code = (__VA_ARGS__); if (code != 0) return end(gpu, code); } while (0)
int NAME(int64_t N, float a, const float *x, float *y) {
  tm_gpu_call *gpu = NULL;
  void *gx = NULL, *gy = NULL;
  const tm_gpu_box box = {.run = (size_t)N * sizeof(float), .lines = 1, .planes = 1};
  TM_TRY(tm_gpu_begin(&gpu, &NAME_program, first_device));
  COPY_IN
  const int64_t grid[3] = {(N + 63) / 64, 1, 1}, block[3] = {64, 1, 1};
  void *arguments[] = {&N, &a, &gx, &gy};
  if (N > 0) TM_TRY(tm_gpu_launch(gpu, 0, 0, grid, block, 0, 0, arguments));
  COPY_OUT
  return end(gpu, 0);
}
"""

COPY_IN = """TM_TRY(tm_gpu_allocate(gpu, 0, &gx, (size_t)N * sizeof(float)));
  TM_TRY(tm_gpu_allocate(gpu, 0, &gy, (size_t)N * sizeof(float)));
  TM_TRY(tm_gpu_copy(gpu, "x", gx, 0, x, -1, &box, 0, 1));"""
COPY_OUT = 'TM_TRY(tm_gpu_copy(gpu, "y", y, -1, gy, 0, &box, 0, 1));'
IN_PLACE = "gx = (void *)x; gy = y; (void)box;"


@dataclass(frozen=True)
class GpuProgram:
    """All that `compile_function` takes of a program that uses a GPU."""

    function: LoopFunction
    sources: dict[str, str]
    algorithm: Algorithm
    kernels: tuple[KernelSignature, ...]

    def compile(self, **options: Any) -> Kernel:
        name = self.function.name
        prototype = f"int {name}(int64_t N, float a, const float *x, float *y);"
        emitted = Emitted(self.sources, prototype, RUNTIME_LIBRARIES, uses_gpu=True)
        return compile_function(self.function, emitted, self.algorithm, kernels=self.kernels, **options)


def flip(
    name: str = "flip", on_gpu: bool = False, barrier: bool = True, beyond: str = "", facts: Any = None
) -> GpuProgram:
    """``y[i] = a * x[j]``, where j counts backwards in blocks of 64.

    `on_gpu`: x and y live on the GPU; `barrier` False leaves a race, and `beyond` writes elsewhere.
    """
    device = 0 if on_gpu else None
    x = ArrayArgument("x", ty.float32, (N,), is_input=True, is_output=False, device=device)
    y = ArrayArgument("y", ty.float32, (N,), is_input=False, is_output=True, device=device)
    a = ScalarArgument("a", ty.float32)
    function = LoopFunction(name, ("N",), (a, x, y), (), Block(()), outputs=("y",), gpus=OnGpus(devices=1))
    context = isl.Context()
    space = isl.Space.create_from_names(context, set=[], params=["N"]).params()
    inputs = {"a": Input("a", ty.float32, (), scalar=True), "x": Input("x", ty.float32, (N,), **(facts or {}))}
    algorithm = Algorithm(name, context, ("N",), isl.Set.universe(space), inputs, {}, ("y",))
    host = HOST.replace("COPY_IN", IN_PLACE if on_gpu else COPY_IN).replace("COPY_OUT", "" if on_gpu else COPY_OUT)
    kernel = KERNELS.replace("BARRIER", "TM_BARRIER();" if barrier else "").replace("BEYOND", beyond)
    own = {f"{name}.c": host, f"{name}.h": HEADER, f"{name}.cu": kernel}
    runtime = {path.name: path.read_text() for path in (*KERNEL_HEADERS, *RUNTIME_HEADERS, *RUNTIME_SOURCES)}
    parameters = (
        KernelParameter("N", "int64_t"),
        KernelParameter("a", "float"),
        KernelParameter("x", "float", True, True),
        KernelParameter("y", "float", True),
    )
    signature = KernelSignature(f"{name}_flip", parameters, (64, 1, 1), cooperates=True)
    sources = {file: text.replace("NAME", name) for file, text in own.items()}
    return GpuProgram(function, {**sources, **runtime}, algorithm, (signature,))
