"""Writes the table of what vector instructions cost by processor, and its page.

Each kind of work is played alone by llvm-mca, with all data in the first-level cache; whether gathers pay is read from
the code that llc makes of one.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.common.tables import table
from benchmarks.instruction_costs.snippets import ALONE, COPIES, CORRECTIONS, LEVELS, PROCESSORS, InstructionSet
from benchmarks.machine_code.assembly import Instruction
from benchmarks.machine_code.mca import INSTALL, Model, estimate, program

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "tiramisu_py" / "program" / "machine" / "instruction_costs.json"
PAGE = ROOT / "docs" / "processors.md"
#: What is the same on all processors of a level.
OF_ALL = ("vector_bytes", "registers", "memory_operands")
BEGIN = "<!-- made by scripts/bench instruction_costs -->"
_GATHER = """
declare <{n} x i32> @llvm.masked.gather.v{n}i32(<{n} x ptr>, i32, <{n} x i1>, <{n} x i32>)
define <{n} x i32> @gathered(ptr %p, <{n} x i32> %i) {{
  %a = getelementptr i32, ptr %p, <{n} x i32> %i
  %g = call <{n} x i32> @llvm.masked.gather.v{n}i32(<{n} x ptr> %a, i32 4, <{n} x i1> <{ones}>, <{n} x i32> undef)
  ret <{n} x i32> %g
}}
"""


def instructions(text: str, copies: int) -> list[Instruction]:
    """A snippet, copied: each copy writes registers of its own."""
    lines = (
        line.replace("{k}", str(k)).replace("{more}", str(k + COPIES))
        for k in range(copies)
        for line in text.split("\n")
    )
    return [Instruction(*line.split(" ", 1)) for line in lines]


def costs(processor: str, of: InstructionSet) -> dict[str, Any]:
    """The entry of a processor."""
    model = Model(of.architecture, processor)
    found: dict[str, Any] = {
        "vector_bytes": of.vector_bytes, "registers": of.registers, "memory_operands": of.architecture == "x86_64",
    }  # fmt: skip
    for name, (text, times) in of.work.items():
        played = estimate(instructions(text, COPIES), model)
        found["starts"] = played.width
        found[name] = CORRECTIONS.get((processor, name), rounded(played.cycles / COPIES / times))
    for name in ALONE:
        found[name] = round(estimate(instructions(of.alone[name], 1), model).cycles)
    return {"masked_store": None, **found, "gathers": gathers(processor, of)}


def rounded(cycles: float) -> float:
    """Cycles in twentieths: the first iterations of a loop that is played cost a little more than the others."""
    return round(20 * cycles) / 20


def gathers(processor: str, of: InstructionSet) -> bool:
    """Whether LLVM loads from computed places by one instruction on a processor."""
    if not of.gather:
        return False
    text = _GATHER.format(n=of.gather, ones=", ".join(["i1 1"] * of.gather))
    name = program()[0].replace("llvm-mca", "llc")
    command = [name, f"-mtriple={of.architecture}", f"-mcpu={processor}", "-o", "-"]
    made = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return re.search(r"\bvp?gather", made.stdout) is not None


def over(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The entry of a level: the mean over its processors. It has gathers if most of them do."""
    found = dict[str, Any]()
    for name, first in entries[0].items():
        values = [entry[name] for entry in entries]
        found[name] = first if name in OF_ALL or None in values else rounded(mean(values))
    return {**found, "gathers": mean(entry["gathers"] for entry in entries) > 0.5}


def everything() -> dict[str, Any]:
    """The whole table."""
    named, version = program()
    if not named:
        raise SystemExit(INSTALL)
    by_set = {of: {name: costs(name, of) for name in names} for of, names in PROCESSORS}
    found = {name: entry for entries in by_set.values() for name, entry in entries.items()}
    for level, of in LEVELS.items():
        found[level] = over(list(by_set[of].values()))
    return {"llvm": version, "processors": dict(sorted(found.items()))}


def page(made: dict[str, Any], head: str) -> str:
    """The page: what stands before the table, and the table."""
    columns = [name for name in next(iter(made["processors"].values())) if name != "vector_bytes"]
    header = ["processor", "bytes", *(name.replace("_", " ") for name in columns)]
    order = sorted(made["processors"].items(), key=lambda each: (each[1]["vector_bytes"], each[0]))
    rows = [[name, str(each["vector_bytes"]), *(_cell(each[column]) for column in columns)] for name, each in order]
    return f"{head.partition(BEGIN)[0]}{BEGIN}\n\n{made['llvm']}:\n\n{table(header, rows)}\n"


def _cell(value: Any) -> str:
    return "none" if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else f"{value:g}"


def main() -> None:
    """Print the table, write it with ``--save``, or compare it with ``--check``."""
    parser = argparse.ArgumentParser(prog="scripts/bench instruction_costs", description=__doc__)
    parser.add_argument("--save", action="store_true", help="write the table, and its page")
    parser.add_argument("--check", action="store_true", help="say by the exit status whether they are as LLVM says")
    options = parser.parse_args()
    made = everything()
    head = PAGE.read_text(encoding="utf-8")
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in made["processors"].items())
    texts = {
        TABLE: f'{{"llvm": {json.dumps(made["llvm"])},\n "processors": {{\n{lines}\n}}}}\n',
        PAGE: page(made, head),
    }
    if options.check:
        old = [path.name for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
        raise SystemExit(f"not as {made['llvm']} says: {', '.join(old)}" if old else 0)
    print(texts[PAGE].partition(BEGIN)[2])
    if options.save:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
