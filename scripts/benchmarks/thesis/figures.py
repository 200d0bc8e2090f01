"""Sections of the page of results: five pictures beside Halide, and on a growing number of ranks (figures 5-4, 5-5)."""

from __future__ import annotations

from benchmarks.common.pictures import bars, lines
from benchmarks.common.tables import table
from benchmarks.thesis import peers, programs
from benchmarks.thesis.cores import NOT_HERE, Section, checked, in_ms, ms, time_of, times_as, verdicts_of
from benchmarks.thesis.machine import Plan, measured


def against_halide(plan: Plan) -> Section:
    """The five pictures beside Halide on one node."""
    size = (plan.rows, plan.columns)
    if not peers.available():
        text = f"Halide is not installed: `pip install 'tiramisu_py[bench]'` ({NOT_HERE})."
        return Section("5-4", "Five pictures beside Halide", text)
    same = {name: "agree" if peers.agree(name, 64, 600) else "DIFFER" for name in programs.PICTURES}
    found = peers.compared(*size, plan.cores, plan.seconds / 4)
    rows = [
        (name, ms(times["ours"]), ms(times["Halide"]), times_as(times["Halide"], times["ours"]), same[name])
        for name, times in found.items()
    ]
    text = (
        "The thesis compares with Distributed Halide on 16 nodes, and is faster in all five. Distributed Halide is a "
        "research branch that no package has; the peer that can be run is Halide on one node. So both run on one rank "
        f"with {plan.cores} threads: {size[0]} x {size[1]} points, `cvtColor` and `pipeline` in bytes, the others in "
        "float32. Nothing is sent here; what ranks add is figure 5-5.\n\n"
        + table(["picture", "ours, ms", "Halide, ms", "times as fast as Halide", "both"], rows)
    )
    series = {who: [times[who] * 1e3 for times in found.values()] for who in ("ours", "Halide")}
    picture = bars("Figure 5-4: five pictures on one node", list(found), series, "ms")
    verdicts = list(same.values())
    return Section("5-4", "Five pictures beside Halide", text, {"thesis-5-4": picture}, [], verdicts)


def scaling(plan: Plan) -> Section:
    """The five pictures on a growing number of ranks."""
    found = measured(plan, "pictures", plan.ranks, plan.rows, plan.columns)
    names = list(programs.PICTURES)
    rows = [(str(n), *(ms(time_of(found, n, name)) for name in names), checked(found, n)) for n in found]
    text = (
        f"{plan.rows} x {plan.columns} points of all ranks together, on {plan.cores} cores that the ranks share: one "
        f"rank has {plan.cores} threads, more ranks have fewer each. The thesis's nodes add cores instead, and its "
        "times go down. Before its messages a rank copies its rows of the picture, so that those received lie beside "
        "them: `cvtColor` and `pipeline`, which need no messages, copy nothing.\n\n"
        + table(["ranks", *(f"{name}, ms" for name in names), "evaluate()"], rows)
    )
    series = {name: [in_ms(time_of(found, n, name)) for n in found] for name in names}
    picture = lines("Figure 5-5: five pictures on ranks", list(found), series, "ms")
    return Section("5-5", "Five pictures on ranks", text, {"thesis-5-5": picture}, [], verdicts_of(found))
