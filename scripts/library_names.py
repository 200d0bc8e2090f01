"""Adds the names of this machine's C library to those that the compiler knows (`algorithm/library_names.txt`).

    python scripts/library_names.py           adds, and prints how many
    python scripts/library_names.py --check   only prints which are missing, and fails if any are

Names of other releases and processors stay. Names that begin with an underscore are known by their form, not listed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "tiramisu_py" / "algorithm" / "library_names.txt"
#: The headers of C's library that generated sources include.
HEADERS = """
dlfcn errno float inttypes limits math omp pthread setjmp signal stdarg stdatomic stdbool stddef stdint stdio stdlib
string sys/mman time unistd
"""
LIBRARIES = ("libc.so.6", "libm.so.6", "libgomp.so.1")


def preprocessed(*flags: str) -> str:
    """The output of gcc's preprocessor for the headers."""
    text = "#define _GNU_SOURCE\n" + "".join(f"#include <{header}.h>\n" for header in HEADERS.split())
    command = ["gcc", "-fopenmp", "-E", *flags, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def macros() -> set[str]:
    """The macros without arguments that the headers define."""
    return set(re.findall(r"^#define ([A-Za-z]\w*)(?: |$)", preprocessed("-dM"), re.MULTILINE))


def types() -> set[str]:
    """The types that the headers name."""
    return set(re.findall(r"typedef [^;{}()]*?\b([A-Za-z]\w*);", preprocessed("-P")))


def exported(library: str) -> set[str]:
    """The exported names of a library that do not begin with an underscore; empty if the library is not installed."""
    asked = ["gcc", f"-print-file-name={library}"]
    found = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    if not found.is_file():
        return set()
    listed = subprocess.run(["nm", "-D", "--defined-only", found], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in listed.splitlines() if " A " not in line]
    public = {name.split("@")[0] for name in names if "@@" in name or "@" not in name}
    return {name for name in public if not name.startswith("_")}


def kinds() -> dict[str, set[str]]:
    """The names listed now, by kind, in the order of the page."""
    parts = re.split(r"^\[(\w+)\]$", re.sub(r"^#.*$", "", PAGE.read_text(), flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    return {kind: set(names.split()) for kind, names in zip(parts[::2], parts[1::2], strict=True)}


def written(listed: dict[str, set[str]]) -> str:
    """The page."""
    head = "".join(line + "\n" for line in PAGE.read_text().splitlines() if line.startswith("#"))
    wrapped = {kind: textwrap.fill(" ".join(sorted(names)), 118) for kind, names in listed.items()}
    return head + "".join(f"\n[{kind}]\n{text}\n" for kind, text in wrapped.items())


def main() -> int:
    """Add the names, or print which are missing."""
    from tiramisu_py.algorithm import reserved  # noqa: PLC0415  (the other functions need nothing installed)

    here = {"macros": macros(), "types": types(), "functions": set[str]().union(*map(exported, LIBRARIES))}
    known = {"macros": reserved.is_macro, "types": reserved.is_taken_inside, "functions": reserved.in_library}
    missing = {kind: {name for name in names if not known[kind](name)} for kind, names in here.items()}
    for kind, names in missing.items():
        print(f"{kind}: {len(names)} missing {' '.join(sorted(names))}")
    if "--check" in sys.argv[1:]:
        return int(any(missing.values()))
    listed = kinds()
    PAGE.write_text(written({kind: names | missing.get(kind, set()) for kind, names in listed.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
