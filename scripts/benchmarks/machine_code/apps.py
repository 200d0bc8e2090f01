"""The hot loops of the apps as machine code, on models of processors that need not be here.

Nothing is run: gcc says which instructions a loop has, and llvm-mca how many cycles they take on a processor.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
from collections.abc import Mapping, Sequence

from benchmarks.apps.programs import App, all_apps
from benchmarks.common.tables import RESULTS, table
from benchmarks.machine_code.assembly import Loop
from benchmarks.machine_code.machines import MACHINES, Machine
from benchmarks.machine_code.mca import INSTALL, Estimate, estimate, program
from benchmarks.machine_code.stage_loops import hottest, loops_of

NAME = "machine_code_apps"
#: The stages of an app that the table has.
STAGES = 3
PROCESSORS = [each for each in MACHINES if each.model.architecture == "x86_64"]
ABOUT = """\
Nothing is run: each app of `examples/apps` is compiled by gcc for two Intel and two AMD processors that need not be
here, with the schedule that it has for the processor, and llvm-mca plays the usual path of its loops on LLVM's model,
with all data in the first-level cache. Of each app there are the {stages} stages whose loops take most cycles for an
iteration; a loop belongs to the stage that is stored last in it, which others may be computed for.

Each cell has the cycles of an iteration; behind a slash the bytes of vectors that it stores, where it stores any;
in brackets what bounds it: a port, how many operations start in a cycle, or latency; and the instructions that keep a
vector on the stack, if there are some. Compare cycles a byte: vectors of Zen 3 have half the bytes of the others.
docs/results/machine_code.md says what these models get wrong.
"""

Found = Mapping[str, Mapping[str, tuple[Loop, Estimate]]]


def found(app: App, machines: Sequence[Machine]) -> Found:
    """The loops of an app by stage, on each machine that code can be made for here."""
    by_stage: dict[str, dict[str, tuple[Loop, Estimate]]] = {}
    for machine in machines:
        if machine.processor is not None:
            print(f"{app.name}, {machine.title}", file=sys.stderr, flush=True)
            for stage, loop in loops_of(app, machine.processor).items():
                by_stage.setdefault(stage, {})[machine.title] = loop, estimate(loop.usual, machine.model)
    return by_stage


def cell(loop: Loop, cost: Estimate) -> str:
    """Cycles, bytes, bound and spilled vectors of a loop."""
    stored = f"/{loop.stored_bytes}" if loop.stored_bytes else ""
    spilled = f", {len(loop.spilled())} spilled" if loop.spilled() else ""
    return f"{cost.cycles:.3g}{stored} ({cost.bound}{spilled})"


def rows(app: App, of: Found, machines: Sequence[Machine]) -> list[list[str]]:
    """The rows of an app: the stages with the most cycles."""
    cycles = {stage: {title: each.cycles for title, (_, each) in those.items()} for stage, those in of.items()}
    return [
        [app.name, stage, *(cell(*of[stage][each.title]) if each.title in of[stage] else "" for each in machines)]
        for stage in hottest(cycles, STAGES)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and save it if asked."""
    apps = all_apps()
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--save", action="store_true", help=f"keep the page in docs/results/{NAME}.md")
    options.add_argument("--only", default=",".join(apps), help="apps, separated by commas")
    asked = options.parse_args(arguments)
    if not program()[0]:
        raise SystemExit(INSTALL)
    chosen = [apps[name] for name in asked.only.split(",")]
    cells = [row for app in chosen for row in rows(app, found(app, PROCESSORS), PROCESSORS)]
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    today = datetime.datetime.now(tz=datetime.UTC).date()
    head = f"Made with `scripts/bench machine_code.apps --save`, {today}; {program()[1]}; {compiler}."
    header = ["app", "stage", *(each.title for each in PROCESSORS)]
    parts = ["# Machine code of the apps' hot loops", head, ABOUT.format(stages=STAGES), table(header, cells)]
    text = "\n\n".join(parts) + "\n"
    print(text)
    if asked.save:
        (RESULTS / f"{NAME}.md").write_text(text)


if __name__ == "__main__":
    main()
