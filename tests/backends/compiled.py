"""Generated functions, compiled with every warning an error and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.backends.calling import raw_call
from tests.compiling import compiled, intrinsics
from tests.forking import run
from tests.processors import NATIVE, native, require
from tests.sanitizers import preloaded
from tiramisu_py.backends import emit
from tiramisu_py.backends.c import LIBRARIES, REQUIRED, THREADS
from tiramisu_py.ir import ArrayArgument, LoopFunction
from tiramisu_py.passes.pipeline import optimise
from tiramisu_py.toolchain.compilers.precompiled import uses_intrinsics

STRICT = ("-Wall", "-Wextra", "-Werror")
#: gcc warns of loads and stores past the end of a buffer, and of copies that overlap, in branches that are never taken,
#: once it has unrolled a loop with -O3 or made it a call of memcpy.
FALSE_ALARMS = (
    "-Wno-stringop-overflow",
    "-Wno-stringop-overread",
    "-Wno-array-bounds",
    "-Wno-restrict",
    "-Wno-aggressive-loop-optimizations",
)
SANITISERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1")


class Compiled:
    """A function as a shared library in a folder of its own; the test is skipped if this processor cannot run it."""

    def __init__(
        self, function: LoopFunction, *flags: str, register: int = 64, threads: bool = True, compiler: str = "gcc"
    ) -> None:
        self.function = function
        self.texts = emit(optimise(function, register))
        chosen = native(flags or ("-O1", NATIVE), compiler)
        require(chosen, compiler)
        wanted = [*REQUIRED, *(THREADS if threads else ()), *STRICT, *chosen]
        quick = uses_intrinsics(self.texts[f"{function.name}.c"], register)
        self.folder = built(function.name, tuple(sorted(self.texts.items())), compiler, tuple(wanted), quick)
        self.library = Path(self.folder.name) / f"lib{function.name}.so"

    @property
    def source(self) -> str:
        return self.texts[f"{self.function.name}.c"]

    def __call__(self, params: Mapping[str, int], **arguments: Any) -> None:
        """Run on NumPy arrays and scalars, in place; the function must return 0."""
        code, error = self.outcome(params, **arguments)
        assert code == 0, error

    def code(self, params: Mapping[str, int], **arguments: Any) -> int:
        """What the function returns."""
        return self.outcome(params, **arguments)[0]

    def outcome(self, params: Mapping[str, int], **arguments: Any) -> tuple[int, str]:
        """What the function returns, and what it says is wrong."""
        library = ctypes.CDLL(str(self.library))
        code = call(library, self.function, params, arguments)
        words = getattr(library, f"{self.function.name}_last_error")
        words.restype = ctypes.c_char_p
        return code, words().decode()

    def sanitised(self, params: Mapping[str, int], **arguments: Any) -> dict[str, Any]:
        """The arguments after a run in a process of its own, under the address and undefined-behaviour sanitisers."""
        folder = Path(self.folder.name)
        np.savez(folder / "given.npz", **{name: _stored(value) for name, value in arguments.items()})
        order = [a.name for a in self.function.arguments]
        assert order == list(arguments), "give the arguments in order"
        command = [
            "-m", "tests.backends.calling", self.library, self.function.name,
            json.dumps([int(value) for value in params.values()]), folder / "given.npz", folder / "found.npz",
        ]  # fmt: skip
        done = run(command, preloaded=preloaded())
        assert done.returncode == 0, done.stderr
        return dict(np.load(folder / "found.npz"))


@functools.cache
def built(
    name: str, texts: tuple[tuple[str, str], ...], compiler: str, flags: tuple[str, ...], quick: bool = False
) -> tempfile.TemporaryDirectory[str]:
    """The folder of a library; the same for the same function and flags in this process. `quick` may use precompiled
    headers.
    """
    made = tempfile.TemporaryDirectory()
    folder = Path(made.name)
    for file, text in texts:
        (folder / file).write_text(text)
    command = [compiler, *flags, "-fPIC", "-shared", "-o", f"lib{name}.so", f"{name}.c", *LIBRARIES]
    compiled(command, folder, f"lib{name}.so", more=lambda: intrinsics(compiler, (*flags, "-fPIC")) if quick else ())
    return made


def _stored(value: Any) -> Any:
    array = np.asarray(value)
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


def call(library: ctypes.CDLL, function: LoopFunction, params: Mapping[str, int], arguments: Mapping[str, Any]) -> int:
    """Call with arguments by name."""
    values = []
    for argument in function.arguments:
        value = arguments[argument.name]
        if isinstance(argument, ArrayArgument):
            assert value is None or (value.dtype == argument.dtype.numpy and value.flags.c_contiguous)
        else:
            value = np.asarray(value, dtype=argument.dtype.numpy)[()]
        values.append(value)
    return raw_call(library, function.name, [params[name] for name in function.params], values)
