"""The page of the experiment: what activations on SSDs need of disks, and what they allow.

scripts/experiments memory [--save]

Nothing is measured here: it is the thesis's arithmetic, done again from its formulas, beside the numbers it prints.
"""

from __future__ import annotations

import argparse
import math

from benchmarks.common.pictures import bars
from benchmarks.common.tables import RESULTS, save_pictures, table
from benchmarks.training import search
from benchmarks.training.transformers import (
    BATCHES,
    BERT,
    BERT_RATE,
    DISKS,
    SCENARIOS,
    SEQUENTIAL,
    SHORT_LIVED,
    Training,
    fitted,
    gains,
    upscaled,
)

TITLE = "Activations on SSDs, by formulas"
INTRODUCTION = """\
Chapters 5 and 6.2.1 of the thesis (Wu, UIUC 2024) estimate what it takes to write the activations of language models
to SSDs. **Nothing on this page is measured**: these are its formulas, computed again, beside the numbers that it
prints; its GPUs and disks are not here. `scripts/bench storage` measures what this project does.
"""


def disks() -> str:
    """Table 5.1, with the years of the heaviest scenario."""
    _, heaviest = max(SCENARIOS, key=lambda each: each[1].bandwidth)
    rows = []
    for each in DISKS:
        years = heaviest.years(4 * each.endurance * 1e15 * SEQUENTIAL)
        numbers = [f"{n:g}" for n in (each.capacity, each.endurance, each.price)]
        rows.append([each.name, *numbers, f"{each.endurance * each.price:,.0f}", f"{years:.1f}"])
    header = ["disk", "TB", "PB written", "$ for one", "$ in all", "years of four"]
    rate = f"{heaviest.bandwidth / 1e9:.1f} GB/s in half of the time"
    words = f"Years: of four disks beside a GPU that writes {rate}, in sequence ({SEQUENTIAL} times those at random)."
    return f"## Disks (table 5.1)\n\n{table(header, rows)}\n\n{words}\n"


def scenarios() -> tuple[str, dict[str, str]]:
    """Figures 5.10 and 5.13."""
    usual, consumer = 4 * DISKS[1].endurance * 1e15 * SEQUENTIAL, 4 * 0.6e15 * SEQUENTIAL * SHORT_LIVED
    rows, years, others = list[list[str]](), list[float](), list[float]()
    for name, one in SCENARIOS:
        years.append(one.years(usual))
        others.append(one.years(consumer))
        numbers = (one.bandwidth / 1e9, years[-1], others[-1])
        rate, *lives = (f"{n:.1f}" for n in numbers)
        rows.append([name, rate, f"{one.activations / 1e12:.2f}", *lives])
    header = ["GPUs, framework, weights", "GB/s", "TB a step", "years, D7-P5620", "years, 980 PRO"]
    text = f"""\
## Lifetime and bandwidth (figures 5.10 and 5.13)

Models, batches and operations a second are those of Narayanan et al. (2021), table 2. Four D7-P5620 beside each GPU, or
four Samsung 980 PRO of 1 TB (600 TB written, {SHORT_LIVED} times as often where data lasts a day). The thesis says:
more than 3 years and at most 12.1 GB/s; more than 2 years of the second disks. Here: at least {min(years):.1f} years,
at most {max(one.bandwidth for _, one in SCENARIOS) / 1e9:.1f} GB/s; at least {min(others):.1f} years.

{table(header, rows)}
"""
    names = [name for name, _ in SCENARIOS]
    pictures = {
        "training-5.10": bars("Years of four D7-P5620 beside each GPU", names, {"years": years}, "years"),
        "training-5.13": bars("Years of four 980 PRO beside each GPU", names, {"years": others}, "years"),
    }
    return text, pictures


def bert() -> str:
    """Tables 5.4 and 5.5."""
    rows = []
    for name, one, (offloaded, estimate, rate) in BERT:
        own = f"{one.activations / 2**30:.2f}", f"{one.bandwidth / 1e9:.1f}"
        rows.append([name, own[0], f"{offloaded:g}", f"{estimate:g}", own[1], f"{rate:g}"])
    header = ["BERT", "ours, GiB", "offloaded there", "its estimate", "ours, GB/s", "there"]
    counts, grown = (2, 4, 8, 16, 32, 64), list[list[str]]()
    for shared, word in ((True, "all"), (False, "matrices")):
        for name, one, _ in BERT:
            rates = (upscaled(one, gpus, shared).bandwidth / 1e9 for gpus in counts)
            grown.append([name, word, *(f"{rate:.1f}" for rate in rates)])
    return f"""\
## Bytes and bandwidth of BERT (tables 5.4 and 5.5)

On two A100 that share each layer, at {BERT_RATE / 1e12:g} teraflops, which all three of its rates and times say.

{table(header, rows)}

GB/s of each GPU, with more of them: up to eight share a layer, then a pipeline has more layers. Of table 5.5 only the
captions are left: each case needs less than that of two GPUs. That is so where GPUs share all of a layer (sequence
parallelism), and is not where they share its matrices alone, at the same speed.

{table(["BERT", "shared", *(f"{n} GPUs" for n in counts)], grown)}
"""


def larger_batches() -> str:
    """Table 5.6."""
    update, slower = fitted()
    rows = []
    for batch, said in BATCHES.items():
        found = gains(batch, update, slower)
        rows.append([str(batch), *(f"{ours:.1f} / {theirs:g}" for ours, theirs in zip(found, said, strict=True))])
    return f"""\
## Larger batches (table 5.6)

What a batch gains over one of a single item, in percent: by these formulas, and in the thesis. Two numbers explain all
twelve: updates of weights are {update:.1%} of the time of a single item, and its kernels lose {slower:.1%} beside those
of endless batches.

{table(["batch", "gain", "by faster kernels", "by fewer updates"], rows)}
"""


def laws() -> str:
    """The exponents of 5.2.1."""
    small = Training(hidden=2048, layers=24, batch=256, tokens=2048, gpus=1, rate=1e12)
    large = small.scaled(4096.0)
    grown = large.operations / small.operations
    exponent = math.log(large.activations / small.activations) / math.log(grown)
    others = math.log(large.parameters / small.parameters) / math.log(grown)
    checkpoints = math.log(
        (large.activations / large.layers**0.5) / (small.activations / small.layers**0.5)
    ) / math.log(grown)
    rows = [
        ["activations", f"{exponent:.3f}", "5/6 = 0.833"],
        ["activations, checkpoints at the root of the layers", f"{checkpoints:.3f}", "more than 0.5"],
        ["weights and what goes with them", f"{others:.3f}", "0.5"],
    ]
    return f"""\
## Growth (section 5.2.1)

Exponents of the operations of a step, counted for models of {small.parameters / 1e9:.1f} and
{large.parameters / 1e9:,.0f} billion weights.

{table(["bytes", "ours", "there"], rows)}
"""


def chosen() -> str:
    """The search over pipeline, micro-batches and place."""
    rows = []
    for gpus in (96, 384, 768):
        found = list(search.choices(12288, 96, 1536, 2048, search.Cluster(gpus)))
        for place in search.PLACES:
            one = search.best(found, place)
            cells = ["none fits"] * 6
            if one is not None:
                cells = [str(one.pipeline), str(one.tensor), str(one.micro_batch), f"{one.seconds:.1f}",
                         f"{one.memory / 1e9:.0f}", f"{one.bandwidth / 1e9:.1f}"]  # fmt: skip
            rows.append([str(gpus), place, *cells])
    header = ["GPUs", "activations", "pipeline", "share a layer", "micro-batch", "step, s", "GB of a GPU", "GB/s"]
    on = search.Cluster(1)
    return f"""\
## Parallelism and place together (section 6.2.1)

The fastest of all combinations for 175 billion weights and a batch of 1536: depth of the pipeline, GPUs that share a
layer, items of a micro-batch, and whether activations are kept, computed again, or in files. GPUs have
{on.memory / 1e9:g} GB, compute {on.rate / 1e12:g} teraflops at best, and write {on.write / 1e9:g} GB/s. A pipeline
idles for (p - 1) / m of the time of its m micro-batches; smaller micro-batches have slower kernels, as in table 5.6.

{table(header, rows)}
"""


def main() -> None:
    """Compute and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--save", action="store_true", help="write docs/results/training.md and its pictures")
    given = options.parse_args()
    lifetimes, pictures = scenarios()
    parts = [INTRODUCTION, disks(), lifetimes, bert(), larger_batches(), laws(), chosen()]
    parts[2] += "".join(f"\n![{name}](pictures/{name}.svg)\n" for name in pictures)
    page = f"# {TITLE}\n\nComputed with `scripts/experiments memory --save`.\n\n" + "\n".join(parts)
    print(page)
    if given.save:
        save_pictures(pictures)
        (RESULTS / "training.md").write_text(page)


if __name__ == "__main__":
    main()
