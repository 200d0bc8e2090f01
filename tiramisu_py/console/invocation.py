"""The commands of the command line: what they take, and how they end."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tiramisu_py import console, progress
from tiramisu_py.console.scripts import ScriptError
from tiramisu_py.errors import TiramisuError
from tiramisu_py.records import dataclass

#: The exit codes: all is well; the program or the machine is not; the command cannot be carried out as given.
WELL, REFUSED, MISUSED, INTERRUPTED = 0, 1, 2, 130


@dataclass(frozen=True)
class Answer:
    """The answer of a command: as text, as plain data for ``--json``, and whether all is well."""

    text: str
    data: Any
    well: bool = True


_EPILOG = """exit codes: 0 all is well; 1 a schedule is refused, or the machine lacks something; 2 wrong use

examples:
  tiramisu check blur.py                      prove every scheduled function of a script
  tiramisu show blur.py --explain by          the loops, and the commands that changed one computation
  tiramisu cost blur.py R=2000 C=3000         operations and bytes, before anything runs
  tiramisu emit blur.py --target znver3       the C (and CUDA) text for a processor
  tiramisu build blur.py -o blur              a folder with library, header, sources and Makefile
  tiramisu bench blur.py R=2000 C=3000        times with random arrays, beside this machine's limits
  tiramisu doctor                             compilers, MPI, GPU and cache: what is there, what is missing
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    given = _parsed(arguments)
    given.environment = dict(os.environ)
    if given.quiet or progress.VARIABLE not in os.environ:
        progress.show(not given.quiet)
    return _ended(given)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; sizes may be anywhere among the options."""
    parser = _parser()
    given, rest = parser.parse_known_args(arguments)
    sizes = [text for text in rest if "=" in text and not text.startswith("-")]
    if not hasattr(given, "sizes") or len(sizes) < len(rest):
        if rest:
            parser.error(f"unrecognized arguments: {' '.join(rest)}")
        return given
    given.sizes += sizes
    return given


def _ended(given: argparse.Namespace) -> int:
    """Runs the command and prints what it found; returns its exit code."""
    try:
        run: Callable[[argparse.Namespace], tuple[str, Any, bool]] = getattr(console, given.run)
        answer = Answer(*run(given))
    except (TiramisuError, ScriptError) as error:
        return _failed(given, error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        return _script_failed(given, error)
    try:
        print(json.dumps(answer.data, indent=1) if given.json else answer.text.rstrip("\n"), flush=True)
    except BrokenPipeError:  # of `tiramisu emit ... | head`
        sys.stderr.close()
    except OSError as error:  # a full disk
        print(f"the answer cannot be written: {error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is lost, without a second error
        return MISUSED
    return WELL if answer.well else REFUSED


def _failed(given: argparse.Namespace, error: Exception) -> int:
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    if given.json:
        print(json.dumps({"error": type(error).__name__, "message": f"{error}{notes}"}, indent=1))
    else:
        print(f"{error}{notes}", file=sys.stderr)
    return MISUSED if isinstance(error, ScriptError) else REFUSED


def _script_failed(given: argparse.Namespace, error: Exception) -> int:
    """An error of the user's own code: its trace begins in the script."""
    script = str(Path(getattr(given, "script", "")).resolve())
    trace = error.__traceback__
    while trace is not None and str(Path(trace.tb_frame.f_code.co_filename).resolve()) != script:
        trace = trace.tb_next
    if trace is None:
        raise error
    if given.json:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}, indent=1))
    print("".join(traceback.format_exception(type(error), error, trace)), end="", file=sys.stderr)
    return MISUSED


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="tiramisu", description="Check, show, build and time scheduled functions.", epilog=_EPILOG,
        formatter_class=plain,
    )  # fmt: skip
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON document")
    common.add_argument("--quiet", action="store_true", help="show no progress of long work")
    script = argparse.ArgumentParser(add_help=False)
    script.add_argument("script", help="a Python script that schedules functions, or a file of Function.save")
    script.add_argument(
        "-f", "--function", metavar="NAME", help="one function of the script: a variable, or what it calls"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, run: str, words: str, *, on_script: bool = True) -> Any:
        own = commands.add_parser(
            name, help=words, description=words, parents=[*([script] if on_script else []), common],
            formatter_class=plain,
        )  # fmt: skip
        own.set_defaults(run=run)
        return own

    command("check", "check", "prove that schedules compute what their algorithms say, or say what is wrong")
    show = command("show", "show", "print the scheduled loops as pseudocode")
    show.add_argument(
        "--explain", metavar="COMPUTATION", help="the commands that changed it, with its loops after each"
    )
    show.add_argument("sizes", nargs="*", metavar="NAME=NUMBER", help="the sizes of the picture; small ones by default")
    show.add_argument("-o", "--output", metavar="FILE.html", help="write a picture of the schedule")
    show.add_argument(
        "--beside", metavar="WHAT", help="another schedule beside it: a function of this script, or another script"
    )
    show.add_argument("--commands", action="store_true", help="the commands of the schedule, as given")
    cost = command("cost", "cost", "count operations, and bytes of each level of memory, before anything runs")
    cost.add_argument("sizes", nargs="*", metavar="NAME=NUMBER", help="the values of the parameters")
    cost.add_argument("--gpu", metavar="NAME", help="such as H200: the occupancy of its multiprocessors")
    _beside(cost)
    emit = command("emit", "emit_text", "print the C, CUDA and MPI text, or write it to a folder")
    emit.add_argument("--target", metavar="PROCESSOR", help="such as x86-64-v3, znver3; default: this machine's")
    emit.add_argument("-o", "--output", metavar="FOLDER", help="write the files there")
    build = command("build", "build", "compile, and write library, header, sources and build files to a folder")
    build.add_argument("-o", "--output", metavar="FOLDER", required=True)
    _compiling(build)
    bench = command("bench", "bench", "time calls with random arrays, beside this machine's limits")
    bench.add_argument("sizes", nargs="*", metavar="NAME=NUMBER", help="the values of the parameters")
    bench.add_argument("--seconds", type=float, default=1.0, help="how long to repeat calls (default: 1)")
    bench.add_argument("--threads", type=int, help="OpenMP threads")
    _beside(bench)
    _compiling(bench)
    command("doctor", "examine", "look for compilers, MPI, GPUs and the cache", on_script=False)
    return parser


def _beside(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--machine", metavar="FILE.json", help="the limits of a machine, which scripts/bench machine wrote"
    )
    parser.add_argument("--roofline", metavar="FILE.svg", help="write a roofline plot of the schedule")


def _compiling(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", metavar="PROCESSOR", help="such as x86-64-v3, znver3; default: this machine's")
    parser.add_argument("--compiler", metavar="COMMAND", help="a C compiler; default: $CC, gcc or clang")
    parser.add_argument(
        "--device", metavar="DEVICE", help='"gpu", "gpu:1" or "simulator", for functions with GPU parts'
    )
