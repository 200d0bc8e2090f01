"""Tables of results: printed, and saved as Markdown with a description of the machine."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.common.one_processor import conditions, named
from benchmarks.common.pictures import short

RESULTS = Path(__file__).resolve().parents[3] / "docs" / "results"
Row = Sequence[str]


def table(header: Row, rows: Sequence[Row]) -> str:
    """A Markdown table with aligned columns: numbers to the right, words to the left."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    numeric = [all(not row[i] or row[i][0].isdigit() for row in rows) and i > 0 for i in range(len(header))]

    def line(row: Row) -> str:
        cells = zip(row, widths, numeric, strict=True)
        return f"| {' | '.join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells)} |"

    rule = ["-" * (width - 1) + (":" if right else "-") for width, right in zip(widths, numeric, strict=True)]
    return "\n".join([line(header), line(rule), *map(line, rows)])


def machine() -> str:
    """One line about this machine: processor, cores, compiler."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        "unknown processor",
    )
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return f"{model}, {os.cpu_count()} cores; {compiler}"


def commit() -> str:
    """The commit of this checkout, in words; nothing where there is none."""
    command = ["git", "-C", str(RESULTS.parent), "log", "-1", "--format=%h"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f", commit {told}" if told else ""


def versions(projects: Sequence[str]) -> str:
    """The versions of Python and of those projects that are installed."""
    named = [f"Python {platform.python_version()}"]
    for project in projects:
        try:
            named.append(f"{project} {importlib.metadata.version(project)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(named)


def milliseconds(seconds: float) -> str:
    """Milliseconds with three digits."""
    return short(seconds * 1e3)


def report(name: str, title: str, text: str, save: bool, command: str = "") -> None:
    """Print a page of results, and write it to ``docs/results/name.md`` if it is to be kept; one of a processor that
    was asked for has a page of its own.
    """
    page = _page(title, text, command or f"scripts/bench {name}")
    print(page)
    if save:
        _keep(name, page)
        print(f"saved: {_place(name)}")


def keep(name: str, title: str, text: str, command: str) -> None:
    """Write the page as far as it is, so that it is not lost if the program does not finish."""
    _keep(name, _page(title, text, command))


def report_part(name: str, title: str, heading: str, text: str, save: bool, command: str) -> None:
    """Print a part of a page, and put it in place of the part of that heading if it is to be kept; others stay.

    Each part says how, when and at which commit it was measured, so that a page may be measured in several calls.
    """
    today = datetime.datetime.now(tz=datetime.UTC).date()
    part = f"## {heading}\n\nMeasured with `{command}`, {today}{commit()}, on {machine()}.\n\n{text}\n"
    print(part)
    if save:
        place = _place(name)
        _keep(name, with_part(place.read_text() if place.exists() else f"# {title}\n", part))
        print(f"saved: {place}")


def with_part(page: str, part: str) -> str:
    """A page with a part in place of the one of its heading, or after all others."""
    head, *parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    headings = [each.partition("\n")[0] for each in parts]
    heading = part.partition("\n")[0]
    if heading in headings:
        parts[headings.index(heading)] = part
    else:
        parts.append(part)
    return "\n".join(each.strip("\n") + "\n" for each in (head, *parts))


def _page(title: str, text: str, how: str) -> str:
    today = datetime.datetime.now(tz=datetime.UTC).date()
    asked = f" --processor={named()}" if named() else ""
    measured = f"Measured with `{how}{asked} --save`, {today}{commit()}, on {machine()}."
    about = [measured, *filter(None, [conditions()])]
    head = f"# {title}{f', for {named()}' if named() else ''}"
    return "\n\n".join([head, *about, text]) + "\n"


def _keep(name: str, page: str) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    _place(name).write_text(page)


def _place(name: str) -> Path:
    return RESULTS / (f"{name}-{named()}.md" if named() else f"{name}.md")


def save_pictures(pictures: Mapping[str, str]) -> None:
    """Write SVG texts to ``docs/results/pictures/name.svg``."""
    folder = RESULTS / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        (folder / f"{drawn(name)}.svg").write_text(picture)


def drawn(picture: str) -> str:
    """The name of a picture's file: one of a processor that was asked for has a file of its own."""
    return f"{picture}-{named()}" if named() else picture
