"""Estimates of llvm-mca: the cycles of one iteration of a loop on a processor that need not be here.

The loop runs alone, with all of its data in the first-level cache, on the model of the processor that LLVM has.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.machine_code.assembly import Instruction

ITERATIONS = 200
#: The oldest LLVM whose models of Ice Lake, Sapphire Rapids and Zen 4 are their own, not those of older processors.
OLDEST = 17
INSTALL = f"no llvm-mca of LLVM {OLDEST} or newer: apt-get install llvm-19"
_VERSION = re.compile(r"LLVM version (\d+)[\d.]*")
#: What the names of a model's ports begin with: ICXPort5, SPRPort05, Zn4FP1, N1UnitV0.
_MODEL = re.compile(r"(ICX|SPR|Zn\d|N\d)(Port|Unit)?")
_PLACE = re.compile(r"[-\w]*\([^)]*\)")
#: How many times as long a vector is as what it is widened from, by the end of the instruction's name.
_SHARE = {"bw": 2, "wd": 2, "dq": 2, "bd": 4, "wq": 4, "bq": 8}
_LINE = 64
#: An iteration that takes so much longer than its ports and its decoder are busy waits for values.
_WAITS = 1.15


@dataclass(frozen=True)
class Model:
    """A processor that LLVM has a model of: its architecture, and its name there."""

    architecture: str
    processor: str


@dataclass(frozen=True)
class Estimate:
    """Of one iteration: cycles, micro-operations and how many of them can start in a cycle, and what keeps ports busy.

    `pressure` has the cycles of each port by the name of the instruction.
    """

    cycles: float
    operations: float
    width: int
    pressure: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def busiest(self) -> tuple[str, float]:
        """The port that is busy for most cycles, and these."""
        busy = {port: sum(those.values()) for port, those in self.pressure.items()}
        return max(busy.items(), key=lambda each: each[1], default=("", 0.0))

    @property
    def bound(self) -> str:
        """What an iteration waits for: its busiest port, the start of operations, or values of earlier ones."""
        port, cycles = self.busiest
        starts = self.operations / self.width
        if self.cycles > _WAITS * max(cycles, starts):
            return "latency"
        return port if cycles >= starts else f"start of {self.width} a cycle"

    def most(self, count: int = 3) -> list[tuple[str, float]]:
        """The instructions that keep the busiest port busy longest, and how long."""
        port, _ = self.busiest
        return Counter(dict(self.pressure.get(port, {}))).most_common(count)


@functools.cache
def program() -> tuple[str, str]:
    """The newest llvm-mca here, and its version; ("", "") if there is none that is new enough."""
    found = [(version(name), name) for name in ("llvm-mca", *(f"llvm-mca-{n}" for n in range(OLDEST, 40)))]
    (number, text), name = max(found)
    return (name, text) if number >= OLDEST else ("", "")


def version(name: str) -> tuple[int, str]:
    """The version of a program of LLVM, as a number and as it says it; 0 if it is not here."""
    if shutil.which(name) is None:
        return 0, ""
    said = _VERSION.search(subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout)
    return (int(said.group(1)), said.group()) if said else (0, "")


def across_lines(path: Sequence[Instruction], is_of_stack: Callable[[Instruction], bool]) -> list[Instruction]:
    """The path with another access for each line that a load of a vector touches beyond its first one, if vectors begin
    anywhere in a line: no model knows that these are loaded twice. The accesses are prefetches, which have no result.
    """
    found, owed = list[Instruction](), 0.0
    for each in path:
        found.append(each)
        place = _PLACE.search(each.operands)
        if each.is_arm or place is None or each.stored_bytes or is_of_stack(each):
            continue
        if re.search("gather|broadcast", each.name):
            continue
        widened = re.fullmatch(r"vpmov[sz]x(\w\w)", each.name)
        owed += each.vector_bytes / (_SHARE[widened[1]] if widened else 1) / _LINE
        if owed >= 1:
            owed -= 1
            found.append(Instruction("prefetcht0", place[0]))
    return found


def estimate(path: Sequence[Instruction], model: Model) -> Estimate:
    """The estimate of a loop whose iterations take this path."""
    name, _ = program()
    command = [
        name,
        f"-mtriple={model.architecture}",
        f"-mcpu={model.processor}",
        "--json",
        f"-iterations={ITERATIONS}",
    ]
    text = "\n".join(map(str, path)) + "\n"
    answer = subprocess.run([*command, "-"], input=text, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {answer.stderr.strip()}")
    return read(json.loads(answer.stdout))


def read(answer: Mapping[str, Any]) -> Estimate:
    """The estimate in what llvm-mca writes with ``--json``."""
    (region,) = answer["CodeRegions"]
    summary, ports = region["SummaryView"], answer["TargetInfo"]["Resources"]
    names = [line.split()[0] for line in region["Instructions"]]
    pressure: dict[str, dict[str, float]] = {}
    for each in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if each["InstructionIndex"] < len(names):  # behind the last one is the sum
            own = pressure.setdefault(_port(ports[each["ResourceIndex"]]), {})
            name = names[each["InstructionIndex"]]
            own[name] = own.get(name, 0.0) + each["ResourceUsage"]
    iterations = summary["Iterations"]
    return Estimate(
        summary["TotalCycles"] / iterations, summary["TotaluOps"] / iterations, summary["DispatchWidth"], pressure
    )


def _port(name: str) -> str:
    """A port without the name of its model; one of several alike ends with a character whose code is its number."""
    return re.sub(r"\.(.)$", lambda found: f".{ord(found.group(1))}", _MODEL.sub("", name, count=1), flags=re.DOTALL)
