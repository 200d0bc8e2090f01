"""Export of the versions that given sizes need, and of a C function that chooses among them by a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tiramisu_py import Function, Kernel
from tiramisu_py.errors import ArgumentError, ToolchainError
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.learned.samples.candidates import JudgedPoint, named
from tiramisu_py.tuning.learned.samples.ranges import Sizes
from tiramisu_py.tuning.learned.study import Study


@dataclass(frozen=True, eq=False)
class ExportedVersion:
    """A point that some sizes need: its kernel, under a name of its own."""

    name: str
    point: str
    kernel: Kernel


def export(study: Study, folder: Path, chosen: Sequence[tuple[Sizes, JudgedPoint]]) -> Path:
    """Writes a folder for each version, and beside them the C function that chooses, its header and a Makefile.

    Raises `ArgumentError` if versions take other arguments, and `ToolchainError` if a file cannot be written.
    """
    versions: dict[str, ExportedVersion] = {}
    table = []
    for sizes, candidate in chosen:
        assert candidate.function is not None
        key = candidate.program
        if key not in versions:
            name = f"{study.name}_{len(versions)}"
            renamed = replace(candidate.function.algorithm, name=name)
            scheduled = Function.of(renamed, candidate.function.commands)
            versions[key] = ExportedVersion(name, named(candidate.point), scheduled.compile(**study.options))
        table.append((sizes, [*versions].index(key)))
    listed = [*versions.values()]
    arguments = _arguments(listed)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for version in listed:
            version.kernel.export(folder / version.name)
        for name, text in {
            f"{study.name}.h": _header(study.name, study.params, arguments),
            f"{study.name}.c": _source(study.name, study.params, arguments, listed, table),
            "Makefile": _makefile(study.name, listed),
        }.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise ToolchainError(f"{study.name} cannot be exported to {folder}: {error}") from error
    return folder


def _arguments(versions: Sequence[ExportedVersion]) -> str:
    """The parameters of the C functions, which are those of all."""
    found = [re.sub(r"^int \w+\((.*)\);$", r"\1", version.kernel.signature) for version in versions]
    for version, own in zip(versions, found, strict=True):
        if own != found[0]:
            raise ArgumentError(
                f"the kernels of {versions[0].point} and of {version.point} take other arguments, ({found[0]}) and "
                f"({own}): let make change no storage of outputs (store_in)"
            )
    return found[0]


def _header(name: str, params: Sequence[str], arguments: str) -> str:
    guard = f"{name.upper()}_H"
    sizes = ", ".join(f"int64_t {each}" for each in params)
    return f"""\
#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

// Runs the version whose sizes in the table are nearest to these; returns 0, or what {name}_last_error() says.
int {name}({arguments});

// What the last call in this thread that did not return 0 found wrong.
const char *{name}_last_error(void);

// The parameters of the version that these sizes run.
const char *{name}_version({sizes});

#ifdef __cplusplus
}}
#endif
#endif
"""


def _source(
    name: str,
    params: Sequence[str],
    arguments: str,
    versions: Sequence[ExportedVersion],
    table: Sequence[tuple[Sizes, int]],
) -> str:
    rows = "\n".join(
        f"    {{{{{', '.join(str(sizes[each]) for each in params)}}}, {number}}}," for sizes, number in table
    )
    sizes = ", ".join(f"int64_t {each}" for each in params)
    passed = ", ".join(re.findall(r"(\w+)(?:,|$)", arguments))
    calls = "\n".join(f"    case {number}: return {version.name}({passed});" for number, version in enumerate(versions))
    errors = "\n".join(
        f"    case {number}: return {version.name}_last_error();" for number, version in enumerate(versions)
    )
    words = ", ".join(f'"{_quoted(version.point)}"' for version in versions)
    includes = "\n".join(f'#include "{version.name}/{version.name}.h"' for version in versions)
    return f"""\
#include "{name}.h"

{includes}

// The sizes for which versions were chosen, and the number of each.
static const struct {{
    int64_t sizes[{len(params)}];
    int version;
}} chosen[] = {{
{rows}
}};

static const char *const points[] = {{{words}}};

static _Thread_local int last = 0;

{_nearest(params, sizes)}
const char *{name}_version({sizes}) {{
    return points[nearest({", ".join(params)})];
}}

int {name}({arguments}) {{
    last = nearest({", ".join(params)});
    switch (last) {{
{calls}
    }}
    return 1;
}}

const char *{name}_last_error(void) {{
    switch (last) {{
{errors}
    }}
    return "";
}}
"""


def _nearest(params: Sequence[str], sizes: str) -> str:
    return f"""\
// The version of the sizes that are nearest: whose ratios to the given ones have the least product, each at least 1.
static int nearest({sizes}) {{
    const int64_t given[] = {{{", ".join(params)}}};
    double least = 0;
    int found = 0;
    for (unsigned row = 0; row < sizeof chosen / sizeof chosen[0]; row++) {{
        double far = 1;
        for (unsigned k = 0; k < {len(params)}; k++) {{
            const double a = given[k] < 1 ? 1 : (double)given[k], b = (double)chosen[row].sizes[k];
            far *= a > b ? a / b : b / a;
        }}
        if (row == 0 || far < least) {{
            least = far;
            found = chosen[row].version;
        }}
    }}
    return found;
}}
"""


def _makefile(name: str, versions: Sequence[ExportedVersion]) -> str:
    return f"""\
# lib{name}: exported by tiramisu_py; each version has its own folder, and flags
#
#   make                  builds lib{name}.a, for programs that are linked with -fopenmp -lm

CC       ?= cc
AR       ?= ar
CFLAGS   ?= -O2
VERSIONS := {" ".join(version.name for version in versions)}

lib{name}.a: {name}.c {name}.h $(VERSIONS)
	$(CC) -std=gnu11 $(CFLAGS) -fPIC -c {name}.c -o {name}.o
	rm -f $@
	$(AR) rcs $@ {name}.o $(VERSIONS:=/*.o)

$(VERSIONS):
	$(MAKE) -C $@ clean all

.PHONY: $(VERSIONS)
"""


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
