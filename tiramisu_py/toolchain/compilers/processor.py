"""The target processor as explicit compiler flags: never "native", whose meaning depends on the machine."""

from __future__ import annotations

import os
import platform
import re
import shlex
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tiramisu_py.backends.c.runtime_files import packaged
from tiramisu_py.errors import ToolchainError
from tiramisu_py.records import dataclass
from tiramisu_py.toolchain.compilers.c_compiler import Toolchain, this_architecture
from tiramisu_py.toolchain.compilers.cache import Cache, digest
from tiramisu_py.toolchain.compilers.flags import width_flag
from tiramisu_py.toolchain.compilers.tools import run

#: The environment variable that names the processor which stands for this machine's own one.
VARIABLE = "TIRAMISU_PROCESSOR"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_FEATURE = re.compile(r"#define __([A-Z][A-Z0-9_]*?)_* 1$", re.MULTILINE)
#: Instruction sets that compilers use on their own.
_USED = re.compile(r"(AVX|SSE|SSSE|FMA|F16C|BMI|LZCNT|POPCNT|MOVBE|GFNI|VAES|VPCLMULQDQ|APX|XOP|TBM|ARM_FEATURE_)")
#: What has such a name, and is used by intrinsics alone, or is no instruction.
_UNUSED = frozenset((
    "ARM_FEATURE_MEMORY_TAGGING", "ARM_FEATURE_RNG", "ARM_FEATURE_SVE_PREDICATE_OPERATORS",
    "ARM_FEATURE_SVE_VECTOR_OPERATORS", "ARM_FEATURE_TME",
))  # fmt: skip
#: The beginning of those that code needs only if it names their instructions: tiles.
BY_NAME = "AMX_"
#: The instruction sets that tm_processor.h can ask for when a program runs.
_ASKED = re.compile(r"^ +X\((\w+),", re.MULTILINE)


@dataclass(frozen=True)
class Processor:
    """A processor: its name, its compiler flags, and its instruction sets that are missing on this machine.

    `is_local` marks this machine's processor, detected and not named. `machine` is its architecture if that is not this
    machine's. `vector_bytes` is the size of its vectors, and `width` the flag that the compiler needs to use whole
    vectors, if any. `host` is the name of the processor that stands for this machine's, if one does (see `host_name`).
    """

    name: str
    flags: tuple[str, ...]
    missing: tuple[str, ...] = ()
    is_local: bool = False
    vector_bytes: int = 16
    machine: str = ""
    width: tuple[str, ...] = ()
    host: str = ""

    @property
    def obstacle(self) -> str:
        """The reason why code for it cannot run here; empty if it can."""
        if self.machine:
            return f"this machine is {this_architecture()}, not {self.machine}"
        return lacking(self.missing, self.host)


def lacking(missing: Sequence[str], host: str = "") -> str:
    """Says that instruction sets are missing here, and which processor stands for this machine's; empty if none is."""
    taken = f" (the environment's {VARIABLE}={host} stands for its processor)" if host else ""
    return f"this machine lacks {', '.join(missing)}{taken}" if missing else ""


def host_name() -> str | None:
    """The processor that stands for this machine's in this process and its children: ``TIRAMISU_PROCESSOR``.

    It is a part of this machine's processor: sizes of vectors, flags, and what can be run are those of this part.
    """
    return os.environ.get(VARIABLE, "").strip() or None


def resolve_processor(cache: Cache, toolchain: Toolchain, target: str | None = None) -> Processor:
    """The processor called `target` ("x86-64-v3", "znver3", "armv8-a", ...); by default the one that stands for this
    machine's (`host_name`), this machine's own, or the default one of a cross compiler.

    Raises `ToolchainError` for a name that the compiler does not know, and for a `host_name` that is no part of this
    machine's processor.
    """
    if target == "native" and toolchain.is_foreign:
        raise ToolchainError(
            f"target='native' is this machine's processor, but {toolchain.command[0]} compiles for "
            f"{toolchain.machine}: name a processor of that kind, or leave target= out"
        )
    host = None if toolchain.is_foreign else _host(cache, toolchain)
    if target in (None, "native"):
        return host or _recalled(cache, toolchain, None)
    return _recalled(cache, toolchain, _checked(f"target={target!r}", target), host)


def _host(cache: Cache, toolchain: Toolchain) -> Processor | None:
    """The processor that stands for this machine's; None where no other one does."""
    name = host_name()
    if name is None:
        return None
    asked = f"{VARIABLE}={name}"
    found = _recalled(cache, toolchain, _checked(asked, name), asked=asked)
    if found.missing:
        raise ToolchainError(
            f"{asked} cannot stand for this machine's processor: {found.obstacle}; name one whose instructions it has, "
            f"or unset {VARIABLE}"
        )
    return found


def _checked(asked: str, name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ToolchainError(f"{asked} is not the name of a processor, such as 'x86-64-v3' or 'znver3'")
    return name


def _recalled(
    cache: Cache, toolchain: Toolchain, target: str | None, host: Processor | None = None, asked: str = ""
) -> Processor:
    own = list(host.flags) if host else None
    key = digest(["processor, vectors, width, machine, missing", toolchain.identity, this_machine(), target, own])
    record = cache.recall(key, lambda: _found(toolchain, target, own), lambda it: not it["fault"] and it["sure"])
    if record["fault"]:
        raise ToolchainError(
            f"{asked or f'target={target!r}'}: {toolchain.command[0]} does not know it; it compiles for "
            f"{toolchain.machine}, and another kind of machine needs its own compiler, such as "
            f"compiler='aarch64-linux-gnu-gcc': {record['fault']}"
        )
    foreign = toolchain.is_foreign
    return Processor(
        record["name"], tuple(record["flags"]), tuple(record["missing"]), target is None and not foreign,
        record["vector_bytes"], toolchain.machine if foreign else "", tuple(record["width"]), host.name if host else "",
    )  # fmt: skip


def _found(toolchain: Toolchain, target: str | None, host: list[str] | None) -> dict[str, Any]:
    """The compiler's account of a processor, beside this machine's own, or the one with the flags `host`."""
    toolchain.require_present()
    foreign = toolchain.is_foreign
    own = host if host is not None else [] if foreign else _native_flags(toolchain)
    sure = foreign or bool(own)
    if target is None:
        name = toolchain.machine if foreign else _name_in(own)
        vectors = _vectors(toolchain, own, _features(toolchain, own))
        sure = vectors.pop("sure") and sure
        return {"name": name, "flags": own, "missing": [], "fault": "", "sure": sure, **vectors}
    flags, fault = _named_flags(toolchain, target)
    has = set() if fault else _features(toolchain, flags)
    missing = sorted(used_by_compilers(has - _features(toolchain, own))) if not fault and not foreign else []
    vectors = _vectors(toolchain, flags, has)
    sure = vectors.pop("sure") and sure
    return {"name": target, "flags": flags, "missing": missing, "fault": fault, "sure": sure, **vectors}


def _vectors(toolchain: Toolchain, flags: list[str], features: set[str]) -> dict[str, Any]:
    """The size of vectors, and the flag for it if the compiler accepts it: compilers for other architectures, and old
    ones, do not. A compiler that should accept it and does not is probed again the next time.
    """
    size = _vector_bytes(features)
    width = list(width_flag(size))
    taken = bool(width) and not _accepted(toolchain, [*flags, *width])
    return {"vector_bytes": size, "width": width if taken else [], "sure": taken or not width}


def _vector_bytes(features: set[str]) -> int:
    if "AVX512F" in features:
        return 64
    return 32 if "AVX2" in features else 16


def this_machine() -> str:
    """The identity of this machine's processor: its model and its instruction sets."""
    words = [platform.machine()]
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if not line.strip():
                    break
                label = line.lower()
                if label.startswith("cpu mhz"):  # of this moment
                    continue
                if label.startswith(("model", "vendor", "flags", "features", "cpu ", "isa", "cache")):
                    words.append(" ".join(line.split()))
    except OSError:
        system = os.uname()  # platform.processor and platform.platform would start processes
        words += [system.sysname, system.release, system.version]
    return "\n".join(words)


def _native_flags(toolchain: Toolchain) -> list[str]:
    """This machine's processor as explicit flags, as the compiler expands "native"."""
    for option in ("-march=native", "-mcpu=native"):
        answer = run([*toolchain.command, option, "-###", "-E", "-x", "c", "/dev/null"])
        if answer.returncode == 0:
            flags = _gcc_flags(answer.stderr) if toolchain.family == "gcc" else _clang_flags(toolchain, answer.stderr)
            if _accepted(toolchain, flags) == "":
                return flags
    return []


def _gcc_flags(said: str) -> list[str]:
    words = _command_with(said, "cc1")
    flags = [word for word in words if word.startswith("-m") and "native" not in word]
    pairs = pairwise(words)
    return flags + [f"--param={value}" for option, value in pairs if option == "--param"]


def _clang_flags(toolchain: Toolchain, said: str) -> list[str]:
    words = _command_with(said, "-cc1")
    pairs = list(pairwise(words))
    option = "-march" if toolchain.is_x86 else "-mcpu"
    flags = [f"{option}={value}" for name, value in pairs if name == "-target-cpu"]
    for name, value in pairs:
        if name == "-target-feature":
            flags += ["-Xclang", "-target-feature", "-Xclang", value]
    return flags


def _command_with(said: str, word: str) -> list[str]:
    for line in said.splitlines():
        words = shlex.split(line) if word in line else []
        if any(w.endswith(word) for w in words):
            return words
    return []


def _name_in(flags: Sequence[str]) -> str:
    named = (flag.partition("=")[2] for flag in flags if flag.startswith(("-march=", "-mcpu=")))
    return next(named, "the compiler's default")


def _named_flags(toolchain: Toolchain, target: str) -> tuple[list[str], str]:
    options = ["-march"] if toolchain.is_x86 else ["-march", "-mcpu"]
    faults = []
    for option in options:
        flags = [f"{option}={target}"]
        fault = _accepted(toolchain, flags)
        if not fault:
            return flags, ""
        faults.append(fault)
    return [], faults[0]


def _accepted(toolchain: Toolchain, flags: list[str]) -> str:
    answer = run([*toolchain.command, *flags, "-fsyntax-only", "-x", "c", "/dev/null"])
    return "" if answer.returncode == 0 else answer.stderr.strip() or "refused"


def instruction_sets(cache: Cache, toolchain: Toolchain, flags: Sequence[str]) -> frozenset[str]:
    """The predefined macros with the value 1 under `flags`, without underscores: those of instruction sets, and some
    others. Raises `ToolchainError`.
    """
    key = digest(["instruction sets", toolchain.identity, list(flags)])
    record = cache.recall(key, lambda: {"macros": sorted(_features(toolchain, list(flags)))})
    return frozenset(record["macros"])


def _features(toolchain: Toolchain, flags: list[str]) -> set[str]:
    """The instruction sets that the compiler may use under `flags`, as its predefined macros name them."""
    answer = run([*toolchain.command, *flags, "-dM", "-E", "-x", "c", "/dev/null"])
    if answer.returncode != 0:
        raise ToolchainError(f"{toolchain} does not say what it compiles for: {answer.stderr.strip() or 'it fails'}")
    return set(_FEATURE.findall(answer.stdout))


def least_processor(cache: Cache, toolchain: Toolchain) -> Processor:
    """The processor whose code all of a compiler's machine run. Raises `ToolchainError` for kinds of machines on which
    a program cannot ask what its processor has.
    """
    arm = toolchain.machine.startswith(("aarch64", "arm64"))
    if not (toolchain.is_x86 or arm):
        raise ToolchainError(
            f"{toolchain.command[0]} compiles for {toolchain.machine}, on which a program cannot ask for instruction "
            "sets: versions for several processors are for x86 and 64-bit Arm"
        )
    return resolve_processor(cache, toolchain, "armv8-a" if arm else "x86-64")


def needed_instruction_sets(cache: Cache, toolchain: Toolchain, processor: Processor) -> tuple[str, ...]:
    """The instruction sets of a processor beyond the least one of its kind, as far as compilers use them on their own.

    Raises `ToolchainError` if a program cannot ask for one of them.
    """
    least = least_processor(cache, toolchain)
    needed = instruction_sets(cache, toolchain, processor.flags) - instruction_sets(cache, toolchain, least.flags)
    asked = _asked()
    unknown = sorted(name for name in needed - asked - _UNUSED if _USED.match(name))
    if unknown:
        raise ToolchainError(
            f"target={processor.name!r}: a program cannot ask for {', '.join(unknown)}, which its code may use: name "
            "another processor for this version"
        )
    return tuple(sorted(name for name in needed & asked if not name.startswith(BY_NAME)))


def used_by_compilers(sets: Collection[str]) -> set[str]:
    """Instruction sets among some that compilers use on their own, so that code needs them; intrinsics alone use the
    others.
    """
    asked = _asked()
    named = {name for name in sets if name not in _UNUSED and (name in asked or _USED.match(name))}
    return {name for name in named if not name.startswith(BY_NAME)}


def _asked() -> set[str]:
    (header,) = packaged("c", "tm_processor.h")
    return set(_ASKED.findall(header.text))
