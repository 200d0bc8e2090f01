"""Loads through the read-only cache from an address that was chosen among several arrays, found in the text of PTX.

``ld.global.nc`` promises that the kernel does not write what it loads. A compiler that makes ``c ? a[i] : b[i]`` one
load from a pointer that it has chosen keeps that promise for `a` alone, if `b` is written. What an address comes of is
followed through all instructions, forwards and around loops: every pointer that may be in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KERNEL = re.compile(r"\.entry\s+(\w+)(.*?)\n\}", re.DOTALL)
_REGISTER = re.compile(r"%\w+")
_PARAMETER = re.compile(r"ld\.param\.[ub]64\s+(%\w+), \[(\w+)\];")
_STORED = re.compile(r"(?:st|red|atom)\.[^;\[]*\[([^\]]*)\]")
#: What an address may come of; all else is an offset in it.
_CARRIES = (
    "add.s64",
    "add.u64",
    "sub.s64",
    "mov.u64",
    "mov.b64",
    "selp.b64",
    "selp.u64",
    "cvta.to.global.u64",
    "cvta.global.u64",
)


@dataclass(frozen=True)
class Instruction:
    """An instruction: its opcode, the register that it writes, and the registers that it reads."""

    text: str
    opcode: str
    target: str
    sources: tuple[str, ...]


def instructions(body: str) -> list[Instruction]:
    """The instructions of a kernel that write a register, in their order."""
    found = []
    for statement in re.split(r"[;{}]\s|:\s", body):
        words = re.sub(r"^\s*@!?%\w+\s+", "", statement.strip())
        opcode, _, rest = words.partition(" ") if " " in words else words.partition("\t")
        opcode = opcode.strip()
        registers = _REGISTER.findall(rest)
        if registers and not opcode.startswith(("st.", "red.", "bra", "bar", ".")):
            found.append(Instruction(statement.strip(), opcode, registers[0], tuple(registers[1:])))
    return found


def pointers(body: str) -> dict[str, set[str]]:
    """The pointers that may be in a register: parameters, or other registers that ``cvta.to.global`` takes."""
    code = [one for one in instructions(body) if one.opcode in _CARRIES]
    parameters = dict(_PARAMETER.findall(body))
    found: dict[str, set[str]] = {}
    changed = True
    while changed:
        changed = False
        for one in code:
            before = found.setdefault(one.target, set())
            origins = {origin for source in one.sources for origin in found.get(source, ())}
            if one.opcode == "cvta.to.global.u64" and not origins:
                origins = {parameters.get(one.sources[0], one.sources[0])}
            if not origins <= before:
                before |= origins
                changed = True
    return found


def chosen_loads(text: str) -> list[str]:
    """The loads of all kernels of a module through the read-only cache whose address may be in several arrays, of which
    the kernel writes one.
    """
    wrong = []
    for name, body in _KERNEL.findall(_COMMENT.sub("", text)):
        origins = pointers(body)

        def arrays(address: str, origins: dict[str, set[str]] = origins) -> set[str]:
            return {origin for register in _REGISTER.findall(address) for origin in origins.get(register, ())}

        written = {array for address in _STORED.findall(body) for array in arrays(address)}
        for load in re.findall(r"ld\.global\.nc\S*\s[^;]*;", body):
            among = arrays(load.partition("[")[2])
            if len(among) > 1 and among & written:
                wrong.append(f"{name}: {' '.join(load.split())}: one of {', '.join(sorted(among))}")
    return wrong
