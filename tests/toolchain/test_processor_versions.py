"""Libraries of versions for processors: chosen in C by what the processor has, exported, linked, built again."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tiramisu_py as tm
from tests import processors
from tests.targets.machines import TARGETS
from tests.toolchain.test_export import names, sh
from tiramisu_py.backends import ProcessorVersion
from tiramisu_py.backends.c.runtime_files import packaged
from tiramisu_py.toolchain.processor_versions import _c_names, _ranked

(N,) = tm.params("N")
(i,) = tm.iters("i")
#: C programs ask the machine, whatever stands for its processor in Python.
FEATURES = processors.of_the_machine()
LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
BEST = max([level for level in LEVELS if level in FEATURES], default="")
GCC = "aarch64-linux-gnu-gcc"
MISSING = next(target.missing for target in TARGETS if target.name == "gcc-neon")

x86 = pytest.mark.skipif(not BEST, reason="no x86-64-v2 here")
arm = pytest.mark.skipif(bool(MISSING), reason=MISSING)

MAIN = r"""
#include <stdio.h>
#include <string.h>
#include "saxpy.h"
int main(void) {
    const char *const version = saxpy_version();
    puts(version == NULL ? "none" : version);
    float x[35], y[35], z[35];
    for (int k = 0; k < 35; k++) x[k] = k, y[k] = 10 * k, z[k] = 0;
    const int code = saxpy(35, 2.0f, x, y, z);
    if (version == NULL) return code != 1 || strstr(saxpy_last_error(), "none of its versions") == NULL;
    for (int k = 0; k < 35; k++) if (z[k] != 2 * x[k] + y[k]) return 2;
    if (saxpy(35, 2.0f, 0, y, z) != 3) return 3;
    if (strcmp(saxpy_last_error(), "saxpy: x is NULL, but has elements") != 0) return 4;
    return code;
}
"""


def saxpy(cpu: tm.Target) -> tm.Function:
    f = tm.Function("saxpy", params=[N])
    a, x, y = f.scalar("a", tm.float32), f.input("x", tm.float32, [N]), f.input("y", tm.float32, [N])
    z = f.computation("z", {i: N}, a * x[i] + y[i])
    f.outputs(z)
    z.vectorize(i, cpu.lanes(tm.float32), remainder="mask")
    return f


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("versions")
    (made / "main.c").write_text(MAIN)
    return tm.compile_versions(saxpy, LEVELS).export(made / "out")


def built(folder: Path, library: str) -> None:
    sh(f"cc -Wall -Wextra -Werror -I. ../main.c {library} -o main", folder)


@x86
def test_a_c_program_runs_the_best_version_or_a_lower_one(folder: Path) -> None:
    built(folder, "-L. -lsaxpy -Wl,-rpath,.")
    assert sh("./main", folder) == f"{BEST}\n"
    for level in LEVELS:
        assert sh("./main", folder, TIRAMISU_VERSION=level) == f"{min(level, BEST)}\n"
    assert sh("./main", folder, TIRAMISU_VERSION="z80") == f"{BEST}\n"


@x86
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="no qemu-x86_64: apt-get install qemu-user")
@pytest.mark.parametrize(("cpu", "version"), [("Haswell", "x86-64-v3"), ("Nehalem", "x86-64-v2"), ("qemu64", "none")])
def test_on_a_processor_that_has_less_no_program_dies(folder: Path, cpu: str, version: str) -> None:
    """One without AVX-512, one without AVX, and one with neither, which are emulated."""
    built(folder, "libsaxpy.a -lm")
    assert sh(f"qemu-x86_64 -cpu {cpu} ./main", folder) == f"{version}\n"


@x86
def test_the_static_library_and_the_makefile_have_all_versions(folder: Path) -> None:
    built(folder, "libsaxpy.a -lm")
    assert sh("./main", folder) == f"{BEST}\n"
    said = sh("make clean all CFLAGS='-O1 -Wall -Wextra -Werror -pedantic'", folder)
    flags = {source: re.findall(r" -march=(\S+)", line) for line in said.splitlines()
             for source in re.findall(r" -c (\S+)\.c", line)}  # fmt: skip
    assert flags["saxpy"] == ["x86-64"], "what chooses runs everywhere"
    for level in LEVELS:
        assert flags[f"saxpy_{level.replace('-', '_')}"] == ["x86-64", level]
    built(folder, "-L. -lsaxpy -Wl,-rpath,.")
    assert sh("./main", folder) == f"{BEST}\n"
    assert "saxpy_version(void)" in (folder / "README.md").read_text()


@x86
def test_headers_of_versions_are_not_installed(folder: Path, tmp_path: Path) -> None:
    sh(f"make install PREFIX={tmp_path}/usr", folder)
    assert names(tmp_path / "usr" / "include") == {"saxpy.h"}


#: The names in /proc/cpuinfo where they are not those of the macros in small letters.
OF_LINUX = {
    "sse3": "pni", "pclmul": "pclmulqdq", "lzcnt": "abm", "bmi": "bmi1", "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni", "avx512bitalg": "avx512_bitalg", "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx5124vnniw": "avx512_4vnniw", "avx5124fmaps": "avx512_4fmaps", "avx512vp2intersect": "avx512_vp2intersect",
    "avx512fp16": "avx512_fp16", "avxvnni": "avx_vnni", "avx512bf16": "avx512_bf16", "sha": "sha_ni",
    "avxifma": "avx_ifma", "avxvnniint8": "avx_vnni_int8", "avxneconvert": "avx_ne_convert",
    "avxvnniint16": "avx_vnni_int16",
}  # fmt: skip


@pytest.mark.skipif(platform.machine() != "x86_64" or platform.system() != "Linux", reason="no cpuinfo of x86")
def test_the_processor_is_asked_as_linux_asks_it(tmp_path: Path) -> None:
    (header,) = packaged("c", "tm_processor.h")
    (tmp_path / header.name).write_text(header.text)
    (tmp_path / "main.c").write_text(
        f'#include "{header.name}"\n#include <stdio.h>\n'
        '#define TM_SAID(name, ...) if (has & TM_SET(name)) puts(#name); else puts("no " #name);\n'
        "int main(void) {\n    const uint64_t has = tm_instruction_sets();\n    TM_SETS(TM_SAID)\n"
        "    return tm_choice(NULL, 0) != TM_NO_VERSION;\n}\n"
    )
    said = sh("cc -Wall -Wextra -Werror -pedantic main.c -o main && ./main", tmp_path).split("\n")[:-1]
    assert len(said) > 40
    known = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    flags = set(known.split(":")[1].split())
    for line in said:
        name = line.removeprefix("no ").lower()
        assert (not line.startswith("no ")) == (OF_LINUX.get(name, name) in flags), line


@arm
def test_versions_for_arm_are_chosen_where_they_run(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(MAIN)

    def chosen(library: Path, cpu: str, **environment: str) -> str:
        command = [GCC, "-static", "-Iout", "main.c", str(library), "-lm", "-o", "main"]
        subprocess.run(command, cwd=tmp_path, check=True)
        return sh(f"qemu-aarch64 -cpu {cpu} main", tmp_path, **environment).strip()

    kernel = tm.compile_versions(saxpy, ["armv8-a", "armv8.2-a+sve"], compiler=GCC)
    with pytest.raises(tm.KernelError, match="not aarch64"):
        kernel(2.0, np.ones(3, np.float32), np.ones(3, np.float32))
    both = kernel.export(tmp_path / "out") / "libsaxpy.a"
    assert chosen(both, "cortex-a53") == "armv8-a"
    assert chosen(both, "max") == "armv8.2-a+sve"
    assert chosen(both, "max", TIRAMISU_VERSION="armv8-a") == "armv8-a"
    only = tm.compile_versions(saxpy, ["armv8.2-a+sve"], compiler=GCC).export(tmp_path / "out") / "libsaxpy.a"
    assert chosen(only, "cortex-a53") == "none"


def test_better_versions_come_first_and_others_as_they_were_listed() -> None:
    function = saxpy(tm.target()).show("lowered")

    def ranked(**needs: str) -> list[str]:
        versions = [ProcessorVersion(function, name, tuple(needed)) for name, needed in needs.items()]
        return [each.processor for each in _ranked(versions)]

    assert ranked(least="", most="abc", some="ab") == ["most", "some", "least"]
    assert ranked(one="ax", other="ay", least="a") == ["one", "other", "least"]
    assert ranked(least="a", other="ay", one="ax", both="axy") == ["both", "other", "one", "least"]


def test_c_functions_of_versions_have_names_of_their_own() -> None:
    found = _c_names("f", ["armv8-a+sve", "armv8-a-sve", "armv8.a+sve", "znver3"])
    assert found == ["f_armv8_a_sve", "f_armv8_a_sve_1", "f_armv8_a_sve_2", "f_znver3"]
    assert all(name.isidentifier() for name in found)
