"""One processor for all programs of a benchmark, by name: ours are compiled for it, and the others keep to its
instructions by their own switches, which are read when their processes start.

`said` starts a process that asks each library that is installed which instructions it uses; one that uses others ends
the benchmark.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tiramisu_py.toolchain.compilers.processor import VARIABLE

_AVX512 = "AVX512-SKX,AVX512-COMMON,AVX512-KNL,AVX512-KNM,AVX512-CNL,AVX512-CLX,AVX512-ICL"
_HALIDE = "x86-64-linux-avx-avx2-f16c-fma-sse41"
#: The switches of each program's compiler or library, by the name of the processor.
SWITCHES: dict[str, dict[str, str]] = {
    "x86-64-v3": {
        "HL_TARGET": _HALIDE, "HL_JIT_TARGET": _HALIDE, "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4,AVX512_ICL,AVX512_SPR", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
        "OPENCV_CPU_DISABLE": _AVX512, "OPENCV_IPP": "avx2", "NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": "",
        "DEVITO_ARCH": "custom", "CC": "gcc", "CFLAGS": "-O3 -march=x86-64-v3 -fPIC -std=c99 -ffast-math",
    },
}  # fmt: skip
ARRAYS = "BENCHMARK_ARRAYS"
#: What arrays are aligned to: as NumPy does it, as PyTorch does it, and to pages.
ALIGNMENTS = (16, 64, 4096)
#: What libraries print of themselves where they are told to, and how an answer stands for it.
_PRINTED = {
    "oneDNN": re.compile(r"isa:(.*)"),
    "MKL": re.compile(r"MKL_VERBOSE .*architecture (.*?) enabled processors"),
}
#: MKL's libraries by instructions: the one that is loaded says which, where its words do not; `def` is the one that it
#: loads on processors of others.
MKL_PARTS = {f"libmkl_{part}" for part in ("def", "mc3", "avx2", "avx512")}
#: What a library says that uses wider instructions than a restricted one may.
_WIDE = re.compile(r"avx[-_ ()a-z]*512|skylakex|cooperlake|sapphire|zmm|amx", re.IGNORECASE)


def options(parser: argparse.ArgumentParser) -> None:
    """The options that every benchmark has beside others."""
    parser.add_argument(
        "--processor", choices=SWITCHES, help="compile ours for it, and keep the others to its instructions"
    )
    words = ",".join(map(str, ALIGNMENTS))
    parser.add_argument(
        "--arrays", default=words, help=f"bytes that arrays are aligned to; the slower ones count ({words})"
    )


def apply(given: argparse.Namespace) -> None:
    """Set what the processes of this benchmark find in their environment."""
    os.environ[ARRAYS] = given.arrays
    if given.processor:
        os.environ.update(SWITCHES[given.processor])
        os.environ[VARIABLE] = given.processor


def alignments() -> tuple[int, ...]:
    """The alignments of arrays that are to be measured; one where no benchmark asks for several."""
    return tuple(int(number) for number in os.environ.get(ARRAYS, "64").split(","))


@contextlib.contextmanager
def aligned(alignment: int) -> Iterator[None]:
    """Inside, arrays have this alignment alone."""
    before = os.environ.get(ARRAYS)
    os.environ[ARRAYS] = str(alignment)
    try:
        yield
    finally:
        os.environ.pop(ARRAYS)
        if before is not None:
            os.environ[ARRAYS] = before


def named() -> str:
    """The processor that was asked for, or an empty text."""
    name = os.environ.get(VARIABLE, "")
    return name if name in SWITCHES else ""


def march() -> str:
    """The flag of C compilers for the processor asked for, or for this machine's."""
    return f"-march={named() or 'native'}"


def conditions() -> str:
    """The processor and the arrays in words, for a page; ends the program where a library uses other instructions."""
    lines = []
    if named():
        answers = said(named())
        if wrong := [f"{name} ({text})" for name, text in answers.items() if _WIDE.search(text)]:
            raise SystemExit(f"--processor={named()}: these use other instructions here: {', '.join(wrong)}")
        words = "; ".join(f"{name}: {text}" for name, text in answers.items())
        lines.append(
            f"**For {named()}, on a machine that has more.** Ours is compiled for it (`{VARIABLE}={named()}`), C of "
            f"others with `{march()}`, and libraries keep to it by their own switches; asked, they say: {words}."
        )
    if len(alignments()) > 1:
        lines.append(
            f"Each program runs with arrays aligned to {', '.join(map(str, alignments()))} bytes; the slower of them "
            "counts."
        )
    return "\n\n".join(lines)


@functools.cache
def said(processor: str) -> dict[str, str]:
    """Which instructions each library uses that is installed, as it says in a process of its own; asked once for a
    processor.
    """
    command = [sys.executable, str(Path(__file__).resolve().parents[1]), "common.one_processor"]
    environment = {**os.environ, **SWITCHES[processor], VARIABLE: processor, "MKL_VERBOSE": "1"}
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    found: dict[str, str] = json.loads(answer.splitlines()[-1])
    for name, pattern in _PRINTED.items():
        if name in found and (line := pattern.search(answer)):
            found[name] = line[1].strip()
    return found


# -- what libraries say, in a process of their own


def _numpy() -> str:
    used = importlib.import_module("numpy._core._multiarray_umath").__cpu_features__
    return ", ".join(name for name in ("X86_V2", "X86_V3", "AVX2", "FMA3", "AVX512_SKX", "X86_V4") if used.get(name))


def _openblas() -> str:
    place = Path(np.__file__).parent
    for file in (*place.parent.glob("numpy.libs/libscipy_openblas*"), *place.glob(".dylibs/libscipy_openblas*")):
        library = ctypes.CDLL(str(file))
        for name in ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename"):
            if hasattr(library, name):
                core = library[name]
                core.restype = ctypes.c_char_p
                return str(core().decode())
    return "not asked"


def _mkl() -> str:
    from benchmarks.linear.peers import mkl, mkl_product  # noqa: PLC0415 (not needed by benchmarks without it)

    if mkl() is None:
        raise ImportError("no MKL")
    a = np.zeros((8, 8), np.float32)
    mkl_product({"A": a, "B": a}, np.zeros_like(a))()
    parts = {Path(line).name.split(".")[0] for line in Path("/proc/self/maps").read_text().split() if "libmkl_" in line}
    return ", ".join(sorted(parts & MKL_PARTS)) or "nothing"


def _torch() -> str:
    torch = importlib.import_module("torch")
    return str(torch.backends.cpu.get_cpu_capability())


def _inductor() -> str:
    importlib.import_module("torch")
    return str(importlib.import_module("torch._inductor.cpu_vec_isa").pick_vec_isa())


def _onednn() -> str:
    torch = importlib.import_module("torch")
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
        torch.nn.functional.conv2d(torch.zeros(8, 16, 32, 32), torch.zeros(16, 16, 3, 3))
    return "nothing"


def _opencv() -> str:
    cv2 = importlib.import_module("cv2")
    used = cv2.getCPUFeaturesLine().split()
    return " ".join(word for word in used if not word.endswith("?") and _has(cv2, word))


def _has(cv2: Any, word: str) -> bool:
    number = getattr(cv2, f"CPU_{word.strip('*').replace('-', '_')}", None)
    return number is None or bool(cv2.checkHardwareSupport(number))


def _numba() -> str:
    numba = importlib.import_module("numba")

    @numba.njit(fastmath=True)  # type: ignore[untyped-decorator]
    def doubled(x: Any) -> None:
        for i in range(x.size):
            x[i] *= 2

    doubled(np.zeros(8, np.float32))
    (text,) = doubled.inspect_asm().values()
    return next((f"{register} registers" for register in ("zmm", "ymm", "xmm") if register in text), "no vectors")


def _halide() -> str:
    return str(importlib.import_module("halide").get_jit_target_from_environment())


LIBRARIES: Mapping[str, Callable[[], str]] = {
    "NumPy": _numpy, "OpenBLAS": _openblas, "MKL": _mkl, "PyTorch": _torch, "torch.compile": _inductor,
    "oneDNN": _onednn, "OpenCV": _opencv, "numba": _numba, "Halide": _halide,
}  # fmt: skip


def main() -> None:
    """Print what the libraries that are installed say."""
    found = {}
    for name, ask in LIBRARIES.items():
        try:
            found[name] = ask()
        except ImportError:
            continue
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
