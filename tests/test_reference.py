"""The reference and the site leave nothing public out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import tiramisu_py as tm
from tiramisu_py.function.handles.old_words import FORMER_LOOKS, OLD_WORDS

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = (ROOT / "docs" / "commands.md").read_text()
#: Nodes of expressions: users make them by arithmetic, and call none of their methods.
NODES = ("Expr", "Iter", "Param")


def public_members() -> Iterator[str]:
    """The public methods and properties of public classes, as `Class.member`, where a class has them first."""
    for name in tm.__all__:
        cls = getattr(tm, name)
        if not inspect.isclass(cls) or name in NODES or issubclass(cls, Exception):
            continue
        for member, value in inspect.getmembers(cls):
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                yield f"{name}.{member}"


def is_named(name: str) -> bool:
    title = "Commands" if name == "Selection" else name
    shown = rf"^## {title}$|^## tm\.{name}\(|^- .*`tm\.{name}`.*: .|^## {name.capitalize()}$"
    return bool(re.search(shown, REFERENCE, re.MULTILINE))


def test_each_public_name_is_explained() -> None:
    assert [name for name in tm.__all__ if not is_named(name)] == []


def test_each_public_method_is_explained() -> None:
    """A method that a class shares with others, in the section of one of them."""
    titles = {*re.findall(r"^### (\w+\.\w+)$", REFERENCE, re.MULTILINE)}
    classes = {name: getattr(tm, name) for name in tm.__all__ if inspect.isclass(getattr(tm, name))}
    paths = sorted(public_members())
    assert len(paths) > 300
    missing = []
    for path in paths:
        owner, member = path.split(".")
        meant = inspect.getattr_static(classes[owner], member)
        same = [name for name, cls in classes.items() if inspect.getattr_static(cls, member, None) is meant]
        if member in OLD_WORDS:
            assert f"\n- `{member}`: write `" in REFERENCE
        elif owner == "Function" and member in FORMER_LOOKS:
            assert f"\n- `{member}` of a function: write `" in REFERENCE
        elif not titles & {f"{name}.{member}" for name in same}:
            missing.append(path)
    assert missing == []


#: The commands of a function, which change its schedule or its places.
OF_FUNCTIONS = (
    "apply", "barrier", "create_exchange", "create_xfer", "derive_transfers", "grid", "order", "remove", "schedule",
    "skew_for",
)  # fmt: skip


def commands_of_the_reference() -> list[str]:
    """The titles of all commands: those of computations, of arrays and of functions."""
    of_computations = re.findall(r"^### (Selection\.\w+)$", REFERENCE, re.MULTILINE)
    assert len(of_computations) > 40
    return [
        *of_computations,
        "Computation.distribute_array",
        "Input.distribute_array",
        *(f"Function.{name}" for name in OF_FUNCTIONS),
    ]


def shows_before_and_after(title: str) -> bool:
    (section,) = re.findall(rf"^### {re.escape(title)}$(.*?)(?=^##)", REFERENCE, re.MULTILINE | re.DOTALL)
    return any("-->" in text for text in re.findall(r"^```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))


def test_each_command_has_a_before_and_an_after() -> None:
    assert [title for title in commands_of_the_reference() if not shows_before_and_after(title)] == []


def test_each_drawing_of_a_command_is_shown() -> None:
    kept = {path.stem for path in (ROOT / "docs" / "pictures" / "commands").glob("*.svg")}
    shown = re.findall(r"^!\[(\w+): .*\]\(pictures/commands/(\w+)\.svg\)$", REFERENCE, re.MULTILINE)
    assert {picture for _, picture in shown} == kept
    assert all(command == picture for command, picture in shown)
    assert {"split", "tile", "interchange", "skew", "parallelize", "vectorize", "tag_gpu", "tag_distribute"} <= kept


def test_each_page_is_in_the_navigation_of_the_site() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r"^ +- ([\w/-]+\.md)$", text[text.index("nav:") :], re.MULTILINE)
    docs = ROOT / "docs"
    notebooks = [f"notebooks/{path.stem}.md" for path in (ROOT / "examples" / "notebooks").glob("*.ipynb")]
    assert sorted(listed) == sorted([*(str(page.relative_to(docs)) for page in docs.rglob("*.md")), *notebooks])
