"""Writes docs/commands.md from the docstrings of the public interface.

With ``--check`` it only reports, by its exit status, whether the page is current.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import get_overloads

import tiramisu_py as tm
from tiramisu_py.fronts import names_of
from tiramisu_py.function.handles.old_words import (
    FORMER_CALLS,
    FORMER_LOOKS,
    OLD_WORDS,
    OldArrays,
    OldLooks,
    OldOrders,
    OldWords,
)
from tiramisu_py.program.command import every_command, name_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "commands.md"
PICTURES = "pictures/commands"
HEAD = """# All commands

The public interface, made from the docstrings by `scripts/reference`. In the texts `-->` stands between the loops
before a command and those after it. Every command returns its handle (or the new ones): they can be chained.

The drawings show small programs before a command and after it. A cell is an instance, at the value that it computes;
its number is the step in which it runs, and what has one number may run at the same time. Colours say who runs it
(threads, blocks, ranks), outlines what is one tile; of a value that is computed several times the cell has all steps.
An element of a buffer has the number of values that it holds in turn. `scripts/command_pictures.py` has the programs.
"""


#: The order of the page; every public class is in one of the two lists.
CLASSES = (
    "Function", "Group", "Input", "Segments", "Computation", "Reduction", "Selection", "Band", "Goal",
    "Transfer", "Exchange", "Half", "Wait",
    "Barrier", "Direction", "Mode", "Property", "Cores", "GpuThreads", "GpuTarget", "Shares", "Partition",
    "Kernel", "Timing", "Report", "Explanation", "Violation", "Witness", "Buffer", "DeviceArray",
    "HostPool", "ArrayTraffic", "Launches", "SimulatedDisk", "Memory",
    "Combine", "Jit", "Autotuned", "Config", "Operator",
    "ExternFunction", "ExternStage", "DType",
    "Trace", "TraceEvent", "Balance", "BalancedPart", "Machine", "MemoryLevel",
    "Storage", "MemoryPlan", "RokCurve", "RokPoint", "Policy", "MemoryNode",
    "Tuned", "TunedPoint", "InputAware", "Collected", "FitReport", "Choice", "Choices", "Target", "Gradients",
    "InstructionCosts",
    "Equivalence",
    "GradientCheck",
)  # fmt: skip
NAMES = ("Expr", "Iter", "Param")
#: The meaning of each public name that is neither a class nor a function; every such name is listed.
GROUPS: tuple[tuple[str, str], ...] = (
    ("Expr Iter Param", "expressions, as arithmetic builds them; iterators (`tm.iters`) and sizes (`tm.params`)"),
    (
        "sum product min max logical_and logical_or argmin argmax any all mean var norm logsumexp",
        "operators of reductions, `f.reduction(name, domain, over, tm.sum, expr)`; `tm.operator` makes others. The "
        "larger of two values is `tm.maximum(a, b)`",
    ),
    ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64", "types of integers, and of truth values"),
    ("bfloat16 float16 float32 float64", "types of numbers with a binary point"),
    ("root", "the level outside of all loops: `q.after(p, tm.root)`, `p.store_at(q, tm.root)`"),
    (
        "rank",
        "the number of the rank that runs the code, for `separate_at(tm.rank, [1])` and the peers of messages; "
        "`tm.ranks(n)` is one for each axis of a grid",
    ),
    ("LOCALITY PARALLEL", "what `skew_for` is for: see [Goal](#goal)"),
    (
        "PRIVATE ATOMIC TREE TWO_PASS LAST_BLOCK",
        "how threads or lanes combine partial results, `parallelize(k, combine=tm.PRIVATE)`: a copy for each and one "
        "sum at the end, atomic updates, or a tree; and the blocks of a GPU, `across=tm.TWO_PASS`: by a second kernel, "
        "or `tm.LAST_BLOCK`: by the last of them",
    ),
    ("LOCK", "how the blocks of a GPU add to one place: one after another, with a lock"),
    (
        "ORDERED",
        "how blocks, or programs of a kernel (`tl.accumulate`), add to one place: in the order of their numbers",
    ),
    (
        "HOST REGISTER GPU_MEMORY SHARED PINNED HOST_MAPPED FILE",
        "kinds of memory, for `store_in`, `copy` and `tm.Buffer`: see [Memory](#memory)",
    ),
    ("LOCAL INTERLEAVE BIND", "on which memory nodes the pages of a temporary are, for `place`: see [Policy](#policy)"),
    ("CPU2GPU GPU2CPU GPU2GPU", "the directions of a copy between devices: see [Direction](#direction)"),
    (
        "CPU2FILE FILE2CPU GPU2FILE FILE2GPU",
        "the directions of a copy to a file, and back, of the host and of GPUs: see [Direction](#direction)",
    ),
    ("SYNC ASYNC", "whether the host waits for a copy between devices: see [Mode](#mode)"),
    ("BLOCK NONBLOCK BUFFERED PERSISTENT", "properties of the halves of an exchange: see [Property](#property)"),
)


def public_names() -> list[str]:
    """The public names of `tiramisu_py`, in the order of its imports, without the rooms themselves."""
    return names_of(tm)


def members(cls: type) -> Iterator[tuple[str, object]]:
    """The documented public members of a class and of its non-public bases, in order of definition."""
    shown = {inner for base in cls.__mro__[1:] if base.__name__ in tm.__all__ for inner in base.__mro__}
    if cls is not tm.Selection:
        shown |= set(tm.Selection.__mro__[1:])
    hidden = [base for base in cls.__mro__[1:] if base.__module__.startswith("tiramisu_py") and base not in shown]
    for owner in (each for each in (*hidden, cls) if each not in (OldWords, OldOrders, OldArrays, OldLooks)):
        for name, given in vars(owner).items():
            member = getattr(cls, name) if isinstance(given, classmethod) else given
            shown_so = isinstance(member, property | FunctionType | MethodType)
            if not name.startswith("_") and shown_so and inspect.getdoc(member):
                yield name, member


def signature(name: str, member: object) -> str:
    """``split(loop, by, outer, inner, *, origin=0)``: names and defaults, without types; each view of a method."""
    if not callable(member):
        return name
    views = [each for each in get_overloads(member) if "what" in inspect.signature(each).parameters]
    if views:
        return "`, `".join(f"{name}({_view(each)})" for each in views)
    parameters = [p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(member).parameters.values()]
    shown = inspect.Signature([p for p in parameters if p.name != "self"])
    return f"{name}{shown}"


def _view(overload: Callable[..., object]) -> str:
    """``"lowered", vector_bytes=64, *, until=None``: the arguments of a view, whose name is a literal."""
    what, *others = [p for p in inspect.signature(overload).parameters.values() if p.name != "self"]
    literal = str(what.annotation).removeprefix("Literal[").removesuffix("]").replace("'", '"').replace(", ", " or ")
    bare = [p.replace(annotation=p.empty) for p in others]
    return ", ".join([literal, *filter(None, [str(inspect.Signature(bare))[1:-1]])])


def text(docstring: str) -> str:
    """A docstring as Markdown: the indented text below a paragraph that ends with ``::`` becomes a fenced block."""
    docstring = re.sub(r"(?<=[^\s:])::\n\n(?= )", ":\n\n::\n\n", docstring)
    return re.sub(r"^::\n\n((?:(?: +.*)?\n)*(?: +.*))", _fenced, docstring, flags=re.MULTILINE)


def _fenced(match: re.Match[str]) -> str:
    return f"```text\n{textwrap.dedent(match[1])}\n```"


def of_class(name: str, cls: type) -> Iterator[str]:
    """One class: its docstring, then its members."""
    title = "Commands" if name == "Selection" else name
    yield f"## {title}\n\n{text(inspect.getdoc(cls) or '')}\n"
    for member_name, member in members(cls):
        shown = signature(member_name, member)
        documented = text(inspect.getdoc(member) or "")
        yield f"### {name}.{member_name}\n\n`{shown}`\n\n{documented}\n{picture_of(name, member_name)}"


def picture_of(owner: str, member: str) -> str:
    """The drawing of a command, as `scripts/command_pictures.py` makes it; "" for what has none."""
    drawn = owner in ("Selection", "Function") and (PAGE.parent / PICTURES / f"{member}.svg").exists()
    if (owner, member) == ("Function", "copy"):  # the drawing is of the copy of an array
        return ""
    return f"\n![{member}: a program before and after]({PICTURES}/{member}.svg)\n" if drawn else ""


def of_errors(errors: list[str]) -> Iterator[str]:
    """The exceptions as a list."""
    lines = [f"- `tm.{name}`: {first_line(getattr(tm, name))}" for name in errors]
    yield "## Errors\n\n" + "\n".join(lines) + "\n"


def of_values(names: list[str]) -> Iterator[str]:
    """Functions and constants."""
    for name in names:
        value = getattr(tm, name)
        if inspect.isfunction(value):
            yield f"## tm.{signature(name, value)}\n\n{text(inspect.getdoc(value) or '')}\n"
    lines = (f"- {', '.join(f'`tm.{name}`' for name in group.split())}: {what}." for group, what in GROUPS)
    yield "## Other names\n\n" + "\n".join(lines) + "\n"


def of_old_words() -> Iterator[str]:
    """The words of older versions, and what to write."""
    yield "## Old words\n\nThese work in this version, with a `DeprecationWarning`; the next one has them no more.\n"
    lines = [f"- `tm.{old}`: write `tm.{new}`" for old, new in vars(tm)["_former"].items()]
    lines += [f"- `{old}`: write `{new}`" for old, new in {**OLD_WORDS, **FORMER_CALLS}.items()]
    lines += [f"- `{old}` of a function: write `{new}`" for old, new in FORMER_LOOKS.items()]
    renamed = [
        (name, old, new)
        for name, method in inspect.getmembers(tm.Computation)
        for old, new in getattr(method, "former", {}).items()
        if not name.startswith("_")
    ]
    lines += [f"- `{old}=` of `{name}`: write `{new}=`" for name, old, new in renamed]
    lines += [
        f"- {', '.join(f'`{old}=`' for old in kind.retired)} of `{name_of(kind)}`: write `{kind.instead}`"
        for kind in every_command()
        if kind.retired
    ]
    yield "\n".join(lines) + "\n"


def of_module(title: str, module: ModuleType) -> Iterator[str]:
    """What a module has for users, with its arguments."""
    yield f"## {title}\n\n{text(inspect.getdoc(module) or '')}\n"
    shown = module.__name__.removeprefix("tiramisu_py.")
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            yield from of_class(f"{shown}.{name}", value)
        else:
            yield f"### tm.{shown}.{signature(name, value)}\n\n{text(inspect.getdoc(value) or '')}\n"


def of_queries() -> Iterator[str]:
    """What can be asked of computations: answers that are made for it, and a list of the other names."""
    queries, room = tm.queries, "tiramisu_py.queries."
    yield f"## Queries\n\n{text(inspect.getdoc(queries) or '')}\n"
    others = []
    for name in queries.__all__:
        value = getattr(queries, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if not value.__module__.startswith(room):
            others.append(f"- `tm.queries.{name}`: {first_line(value)}")
        elif inspect.isclass(value):
            yield from of_class(f"queries.{name}", value)
        else:
            yield f"### tm.queries.{signature(name, value)}\n\n{text(inspect.getdoc(value) or '')}\n"
    yield "Beside these:\n\n" + "\n".join(others) + "\n"


def first_line(documented: object) -> str:
    """The first sentence of a docstring."""
    return (inspect.getdoc(documented) or "").splitlines()[0]


def page() -> str:
    """The whole reference; raises SystemExit if a public class has no place on the page."""
    names = public_names()
    classes = [name for name in names if inspect.isclass(getattr(tm, name))]
    errors = [name for name in classes if issubclass(getattr(tm, name), Exception)]
    plain = {name for name in names if name not in classes and not inspect.isfunction(getattr(tm, name))}
    homeless = set(classes) - set(errors) - set(CLASSES) - set(NAMES)
    homeless |= plain ^ {name for group, _ in GROUPS for name in group.split() if name not in classes}
    if homeless:
        raise SystemExit(f"docs/commands.md has no place for {', '.join(sorted(homeless))}")
    parts = [HEAD]
    for name in CLASSES:
        parts += of_class(name, getattr(tm, name))
    parts += of_values([name for name in names if name not in classes or name in NAMES])
    parts += of_module("Boundary", tm.boundary)
    parts += of_module("Filters of input-aware tuning", tm.tuning.filters)
    parts += of_module("Patterns", tm.patterns)
    parts += of_module("Progress", tm.progress)
    parts += of_queries()
    parts += of_module("Recipes", tm.recipes)
    parts += of_module("Sparse", tm.sparse)
    parts += of_module("Graphs", tm.graphs)
    parts += of_old_words()
    parts += of_errors(sorted(errors))
    return "\n".join(parts)


def kept(path: Path, made: str) -> int:
    """Write a page, or with ``--check`` compare it with the one that is there; the exit status."""
    if sys.argv[1:] == ["--check"]:
        return 0 if path.exists() and path.read_text() == made else 1
    path.write_text(made)
    print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(kept(PAGE, page()))
