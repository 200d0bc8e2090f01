"""The signatures of all public methods, as they were: names, order, defaults; each argument is annotated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import tiramisu_py as tm
from tiramisu_py.fronts import names_of


def methods() -> Iterator[tuple[str, Callable[..., object]]]:
    """The public methods of all public classes, inherited ones too."""
    for name in names_of(tm):
        cls = getattr(tm, name)
        if not inspect.isclass(cls) or issubclass(cls, Exception):
            continue
        for method, _ in inspect.getmembers(cls):
            found = getattr(cls, method, None)
            if not method.startswith("_") and (inspect.isfunction(found) or inspect.ismethod(found)):
                yield f"{name}.{method}", found


def shown(method: Callable[..., object]) -> str:
    """``(self, loop, by, outer, inner, *, origin=0)``: a signature without types."""
    parameters = inspect.signature(method).parameters.values()
    return str(inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters]))


def test_public_methods_have_the_signatures_that_they_had(golden: Callable[[str, str], None]) -> None:
    golden("".join(f"{name}{shown(method)}\n" for name, method in sorted(methods())), "signatures.txt")


def test_editors_are_told_the_type_of_every_argument_and_result() -> None:
    lacking = [
        f"{name}: {each.name}"
        for name, method in methods()
        if (getattr(method, "__module__", "") or "").startswith("tiramisu_py.")
        for each in list(inspect.signature(method).parameters.values())
        if each.annotation is each.empty and each.name not in ("self", "cls")
    ]
    assert not lacking
