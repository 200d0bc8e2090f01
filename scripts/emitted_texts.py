"""Digests of what the compiler emits for all examples and their variants, to compare before and after a change.

    python scripts/emitted_texts.py --write before.json
    python scripts/emitted_texts.py --against before.json [NAME ...]

An example is a module in `examples/`; its variants are what ``VARIANTS`` names (for four ranks and 24 rows where they
ask for these), and its own functions that take no arguments and return a `tm.Function`. Of each, the emitted files and
the text of its commands are digested; nothing is proven, compiled or run. The exit status says whether all
digests are those of the file; names of examples, such as ``gpu/blur``, choose some of them. Recipes take sizes from
the processor, so both runs must be on one machine.
"""

from __future__ import annotations

import argparse
import inspect
import json
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path

import tiramisu_py as tm
from tiramisu_py import backends, lower, passes

RANKS_AND_ROWS = (4, 24)
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", type=Path, help="the file for the digests")
    options.add_argument("--against", type=Path, help="a file of digests to compare with")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("names", nargs="*", help="some examples, such as gpu/blur")
    given = options.parse_args()
    names = given.names or examples()
    if given.one:
        sys.stdout.write(json.dumps(digests(given.names[0])))
        return 0
    with ThreadPoolExecutor(given.processes) as pool:
        found = {key: digest for each in pool.map(in_a_process, names) for key, digest in each.items()}
    if given.write:
        given.write.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    if given.against is None:
        return 0
    before = json.loads(given.against.read_text())
    if given.names:
        before = {key: digest for key, digest in before.items() if key.partition(":")[0] in given.names}
    differ = sorted(key for key in before.keys() | found.keys() if before.get(key) != found.get(key))
    sys.stdout.write("".join(f"{key}: {before.get(key)} --> {found.get(key)}\n" for key in differ))
    sys.stdout.write(f"{len(differ)} of {len(found)} texts differ\n")
    return 1 if differ else 0


def examples() -> list[str]:
    """The names of all examples: their paths in the folder, without the suffix."""
    return sorted(path.relative_to(EXAMPLES).with_suffix("").as_posix() for path in EXAMPLES.rglob("*.py"))


def in_a_process(name: str) -> dict[str, str]:
    """The digests of an example, found in a process of its own."""
    told = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, check=False)
    found: dict[str, str] = json.loads(told.stdout.splitlines()[-1]) if told.returncode == 0 else {name: told.stderr}
    return found


def digests(name: str) -> dict[str, str]:
    """The digest of each variant of an example; of one that fails, the error."""
    path = EXAMPLES / f"{name}.py"
    sys.path.insert(0, str(path.parent))
    known = set(sys.modules)
    try:
        space = runpy.run_path(str(path), run_name="__example__")
    except ImportError as error:
        return {name: f"cannot be read: {error}"}
    finally:
        sys.path.pop(0)
        for module in {each for each in sys.modules if "story" in each} - known:  # each folder has its own
            del sys.modules[module]
    return {f"{name}:{variant}": digest(make) for variant, make in variants(space)}


def variants(space: dict[str, object]) -> Iterator[tuple[str, Callable[[], object]]]:
    """What makes the functions of an example."""
    named = space.get("VARIANTS")
    listed = named if isinstance(named, dict) else {}
    for name, make in listed.items():
        yield name, partial(make, *RANKS_AND_ROWS[: len(_needed(make))])
    for name, value in space.items():
        if any(value is made for made in listed.values()):
            continue
        if inspect.isfunction(value) and value.__module__ == "__example__" and _makes_function(value):
            yield name, value
        elif isinstance(value, tm.Function):
            yield name, partial(_itself, value)


def _makes_function(value: Callable[..., object]) -> bool:
    return not _needed(value) and inspect.signature(value).return_annotation in ("tm.Function", tm.Function)


def _itself(f: tm.Function) -> tm.Function:
    return f


def _needed(make: Callable[..., object]) -> list[str]:
    parameters = inspect.signature(make).parameters.items()
    return [name for name, each in parameters if each.default is each.empty]


def digest(make: Callable[[], object]) -> str:
    """The digests of the emitted files and of the commands of one function; the error where there is one."""
    try:
        f = make()
        if isinstance(f, tuple):
            f = next(each for each in f if isinstance(each, tm.Function))
        assert isinstance(f, tm.Function), f"{f!r} is no function"
        loops = passes.optimise(lower.lower(f.completed), 64, passes.PIPELINE)
        texts = [json.dumps(dict(backends.emit(loops)), sort_keys=True), "\n".join(map(str, f.commands))]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    files, commands = (sha256(text.encode()).hexdigest()[:16] for text in texts)
    return f"files {files} commands {commands}"


if __name__ == "__main__":
    sys.exit(main())
