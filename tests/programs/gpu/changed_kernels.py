"""Kernels whose emitted text is changed: that a line of it is needed shows in what the simulator finds without it."""

from __future__ import annotations

import re
from dataclasses import replace

import tiramisu_py as tm
from tiramisu_py.backends.cuda.kernel_text import signatures
from tiramisu_py.backends.emitting import emit
from tiramisu_py.toolchain import compile_function


def with_changed_text(f: tm.Function, file: str, line: str, instead: str) -> tm.Kernel:
    """A function in the simulator, with its checks, in whose file an expression is replaced; it has to be there."""
    function = f.show("lowered")
    emitted = emit(function)
    changed = re.sub(line, instead, emitted[file])
    assert changed != emitted[file], f"{file} has nothing like {line}"
    return compile_function(
        function, replace(emitted, files={**emitted, file: changed}), f.algorithm, kernels=signatures(function),
        device="simulator", sanitize=True,
    )  # fmt: skip
