"""Writes docs/passes.md from the docstrings of the passes and the comments of the pass lists.

With ``--check`` it only reports, by its exit status, whether the page is current.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator

from command_reference import ROOT, kept, text
from tiramisu_py.passes import PIPELINE, pipeline
from tiramisu_py.passes.base import FunctionPass, NestPass

PAGE = ROOT / "docs" / "passes.md"
HEAD = """# All passes

What becomes of the loops of a proven program before they are printed as C or CUDA; made from the docstrings of
`tiramisu_py/passes` by `scripts/reference`. In the pictures `-->` stands between the loops before a pass and those
after it. `f.show("lowered", until=...)` shows the loops of a function after the pass of a name:

```python
import tiramisu_py as tm

(N,), (i,) = tm.params("N"), tm.iters("i")
f = tm.Function("doubled", params=[N])
x = f.input("x", tm.float32, [N])
y = f.computation("y", {i: N}, 2 * x[i])
f.outputs(y)
y.vectorize(i, 8)
print(f.show("lowered", until="vectorize"))
```

```output
doubled(N, x, y):
    i_end = N // 8 * 8
    for i in 0 .. i_end step 8:
        # y[i] = 2 * x[i]
        y[i : i + 8] = 2.0 * x[i : i + 8]
    for i in i_end .. N:
        y[i] = 2.0 * x[i]
```
"""

#: The pass lists in order: the name of the tuple, and what it runs over.
LISTS = (
    ("FIRST", "first", "Over a function as soon as it is lowered"),
    ("BEFORE_NESTS", "before_nests", "Over a function before its nests"),
    ("HOST", "host", "Over each nest of the host"),
    ("AFTER_NESTS", "after_nests", "Over a function when its own nests are done"),
    ("KERNEL", "kernel", "Over each nest of a kernel"),
)
ENTRY = re.compile(r"^    (\w+\(.*?\)),  # (.*)$", re.MULTILINE)


def reasons(name: str) -> list[tuple[str, str]]:
    """The entries of a pass list as written, each with the reason for its place."""
    source = inspect.getsource(pipeline)
    found = re.search(rf"^{name}: .*?^\)$", source, re.MULTILINE | re.DOTALL)
    assert found is not None, name
    return ENTRY.findall(found[0])


def of_list(name: str, field: str, title: str) -> Iterator[str]:
    """One list: its passes in their order, with the reasons."""
    passes: tuple[FunctionPass | NestPass, ...] = getattr(PIPELINE, field)
    told = reasons(name)
    if len(told) != len(passes):
        raise SystemExit(f"{len(passes)} passes are in {name}, and {len(told)} have a reason for their place")
    rows = "\n".join(f"| `{each.name}` | {why} |" for each, (_, why) in zip(passes, told, strict=True))
    yield f"## {title}\n\n| Pass | Why here |\n|---|---|\n{rows}\n"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for each in LISTS:
        parts += of_list(*each)
    classes = dict.fromkeys(type(each) for each in PIPELINE.passes)
    parts.append("## What they do\n")
    for cls in sorted(classes, key=lambda cls: cls.__name__):
        parts.append(f"### {cls.__name__}\n\n{text(inspect.getdoc(cls) or '')}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(kept(PAGE, page()))
