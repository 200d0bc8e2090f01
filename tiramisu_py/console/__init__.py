"""The command line: ``tiramisu check script.py`` and the others."""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py.console.building import build
    from tiramisu_py.console.costing import bench, cost
    from tiramisu_py.console.doctor import examine
    from tiramisu_py.console.invocation import main
    from tiramisu_py.console.reading import check, emit_text, show

front(
    __name__,
    {
        "tiramisu_py.console.building": "build",
        "tiramisu_py.console.costing": "bench, cost",
        "tiramisu_py.console.doctor": "examine",
        "tiramisu_py.console.invocation": "main",
        "tiramisu_py.console.reading": "check, emit_text, show",
    },
)

__all__ = ["bench", "build", "check", "cost", "emit_text", "examine", "main", "show"]
