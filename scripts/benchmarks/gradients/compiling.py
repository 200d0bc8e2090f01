"""What it costs to check, emit and compile the step of a program, beside the program itself."""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tiramisu_py as tm
from benchmarks.common.one_processor import march
from benchmarks.gradients.programs import Differentiated


@dataclass(frozen=True)
class Compiling:
    """Seconds of processor time, and characters of C."""

    name: str
    check_f: float
    check_step: float
    source: float
    gcc: float
    text_f: int
    text_step: int


def compiling(program: Differentiated, threads: int = 2) -> Compiling:
    """The cost of one program."""
    warm = program.make()
    warm.check()  # what is made once in a process is in nobody's figure
    f, step = program.make(), tm.vjp(program.make(), wrt=program.wrt).step
    check_f, check_step = _seconds(f.check), _seconds(step.check)
    scheduled_f, scheduled = program.make(), tm.vjp(program.make(), wrt=program.wrt).step
    program.schedule(scheduled_f, threads)
    program.schedule(scheduled, threads)
    scheduled.check()
    source = _seconds(scheduled.source)
    files, files_of_f = scheduled.source(), scheduled_f.source()
    return Compiling(
        program.name, check_f, check_step, source, _gcc(files),
        _own_text(files_of_f, scheduled_f.name), _own_text(files, scheduled.name),
    )  # fmt: skip


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _own_text(files: Mapping[str, str], name: str) -> int:
    """The characters of the files of a function, without those of the runtime."""
    return sum(len(text) for file, text in files.items() if file.startswith(name))


def _gcc(files: Mapping[str, str]) -> float:
    """Seconds of gcc for the C files of a function."""
    with tempfile.TemporaryDirectory() as place:
        for file, text in files.items():
            (Path(place) / file).write_text(text)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for file in [file for file in files if file.endswith(".c")]:
            command = ["gcc", "-O3", march(), "-fopenmp", "-fPIC", "-c", file, "-o", "/dev/null"]
            subprocess.run(command, cwd=place, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
