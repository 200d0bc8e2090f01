"""Every program in the README and in docs/ runs as it is printed, and prints what is printed below it.

The python blocks of a page are run one after another, as a reader would type them; a page is one session. A block
marked `output` right after a python block is what that block prints; ``...`` stands for anything, and times are not
compared. ``pytest --update-golden`` writes what is printed into the pages.

A `py` block that begins with the name of a file, ``# blur.py``, is that file; the commands of a `console` block, lines
after ``$``, run beside these files, and print what stands below them.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\(\d+ ms\)")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its text, and the line where the text starts."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in FENCE.finditer(text)]


def pages_with_programs() -> list[Path]:
    return [page for page in PAGES if any(block.language == "python" for block in blocks(page))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def printed_by(block: Block, page: Path, session: dict[str, object]) -> str:
    code = compile("\n" * (block.line - 1) + block.text, name_of(page), "exec")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, session)
    return TIME.sub("(... ms)", out.getvalue()).strip("\n") + "\n"


def files_of(page: Path) -> dict[str, str]:
    """The files that a page has whole: their names and texts."""
    named = ((re.match(r"# (\w+\.py)\n", block.text), block) for block in blocks(page) if block.language == "py")
    return {name[1]: block.text for name, block in named if name}


def commands_of(page: Path) -> list[tuple[int, str, str]]:
    """The commands that a page runs: the line of each, its text, and what it prints."""
    sessions = [block for block in blocks(page) if block.language == "console" and block.text.startswith("$ ")]
    return [
        (block.line, *session.split("\n", 1))  # type: ignore[misc]
        for block in sessions
        for session in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    ]


def rewritten(page: Path, printed: list[str]) -> str:
    """The page with the texts of its output blocks replaced."""
    texts = iter(printed)
    return FENCE.sub(lambda m: f"```output\n{next(texts)}```" if m[1] == "output" else m[0], page.read_text())


@pytest.mark.parametrize("page", pages_with_programs(), ids=name_of)
def test_the_programs_of_a_page_run_and_print_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {"__name__": "__main__"}
    last, printed, expected = "", [], []
    for block in blocks(page):
        if block.language == "python":
            last = printed_by(block, page, session)
        elif block.language == "output":
            printed.append(last)
            expected.append(block)
    if pytestconfig.getoption("--update-golden"):
        page.write_text(rewritten(page, printed))
        return
    checker = doctest.OutputChecker()
    for block, got in zip(expected, printed, strict=True):
        fits = checker.check_output(block.text, got, doctest.ELLIPSIS)
        assert fits, f"{name_of(page)}:{block.line} does not print this, but:\n{got}"
    for name, text in files_of(page).items():
        Path(name).write_text(text)
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for line, command, wanted in commands_of(page):
        here = command.replace("scripts/", f"{ROOT}/scripts/")
        ran = subprocess.run(
            ["bash", "-c", here], capture_output=True, text=True, check=False, env={**os.environ, "PATH": tools}
        )
        got = TIME.sub("(... ms)", ran.stdout + ran.stderr)
        assert checker.check_output(wanted, got, doctest.ELLIPSIS), f"{name_of(page)}:{line}: {command}:\n{got}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    missing = [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_takes_parameters_and_iterators_out_of_their_tuples_in_one_way(page: Path) -> None:
    lines = [line.strip() for block in blocks(page) for line in block.text.splitlines()]
    single = [line for line in lines if re.search(r"tm\.(params|iters)\([\"']\w+[\"']\)", line)]
    assert not [line for line in single if not re.match(r"(-->   )?\(\w+,\)", line)]


def test_the_readme_has_a_program_and_what_it_prints() -> None:
    languages = [block.language for block in blocks(ROOT / "README.md")]
    assert "python" in languages
    assert "output" in languages


@pytest.mark.parametrize(
    ("script", "page"),
    [
        ("command_pictures.py", "pictures/commands"),
        ("model_pictures.py", "guide/pictures"),
        ("command_reference.py", "commands.md"),
        ("pass_reference.py", "passes.md"),
        ("parity_reference.py", "parity.md"),
    ],
)
def test_a_reference_is_what_the_docstrings_say(script: str, page: str, pytestconfig: pytest.Config) -> None:
    command = [sys.executable, str(ROOT / "scripts" / script)]
    if pytestconfig.getoption("--update-golden"):
        subprocess.run(command, check=True)
    check = subprocess.run([*command, "--check"], check=False)
    assert check.returncode == 0, f"docs/{page} is not current: run scripts/reference"
