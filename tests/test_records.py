"""Dataclasses whose methods are made when they are first used: in all respects those of the standard library."""

from __future__ import annotations

import abc
import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, InitVar, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from tiramisu_py import records

ROOT = Path(__file__).resolve().parent.parent
Decorator = Callable[..., Any]
_T = TypeVar("_T")


@pytest.fixture(params=[dataclasses.dataclass, records.dataclass], ids=["standard", "record"])
def dataclass(request: pytest.FixtureRequest) -> Decorator:
    """Both decorators: each test says what the standard library's does, and demands it of ours."""
    decorator: Decorator = request.param
    return decorator


@records.dataclass(frozen=True)
class Point:
    """A point that can be pickled, which needs a class with a name in its module."""

    x: int
    y: int = 2
    seen: list[int] = field(default_factory=list, compare=False)


def test_fields_are_arguments_with_defaults(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Made:
        """A class."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        d: int = field(default=4, init=False)
        e: list[int] = field(default_factory=lambda: [5], init=False)

    made = Made(1, c=[3])
    assert (made.a, made.b, made.c, made.d, made.e) == (1, "b", [3], 4, [5])
    assert Made(1).c is not Made(1).c
    assert str(inspect.signature(Made)) == "(a: 'int', b: 'str' = 'b', c: 'list[int]' = <factory>) -> None"
    assert Made.b == "b" and not hasattr(Made, "c") and Made.d == 4
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        Made()
    assert list(vars(made)) == ["a", "b", "c", "e"]


def test_values_are_equal_by_the_fields_that_are_compared(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Made:
        a: int
        b: int = field(default=0, compare=False)
        c: int = field(default=0, hash=False)

    @dataclass(frozen=True)
    class Other(Made):
        pass

    assert Made(1, 2, 3) == Made(1, 5, 3) != Made(1, 2, 4)
    assert hash(Made(1, 2, 3)) == hash(Made(1, 5, 4)) == hash((1,)) != hash(Made(2, 2, 3))
    assert Made(1) != Other(1) and Made(1).__eq__(Other(1)) is NotImplemented
    assert {Made(1), Made(1, 7)} == {Made(1)}


def test_text_names_the_fields_that_are_shown_and_ends_where_a_value_holds_itself(dataclass: Decorator) -> None:
    @dataclass
    class Made:
        a: int
        b: int = field(default=0, repr=False)
        c: Any = None

    made = Made(1)
    inside = f"{test_text_names_the_fields_that_are_shown_and_ends_where_a_value_holds_itself.__name__}.<locals>.Made"
    assert repr(made) == f"{inside}(a=1, c=None)"
    made.c = made
    assert repr(made) == f"{inside}(a=1, c=...)"


def test_frozen_values_cannot_be_changed(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Made:
        a: int

        @cached_property
        def twice(self) -> int:
            return 2 * self.a

    class Plain(Made):
        """A class that is not decorated: its own attributes can be set, as far as they are no fields."""

    made, plain = Made(1), Plain(1)
    for change in (lambda: setattr(made, "a", 2), lambda: setattr(made, "other", 2), lambda: setattr(plain, "a", 2)):
        with pytest.raises(FrozenInstanceError, match="cannot assign to field"):
            change()
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'a'"):
        del made.a
    plain.other = 3
    assert plain.other == 3 and made.twice == 2 and made.a == 1
    with pytest.raises(TypeError, match="Cannot overwrite attribute __setattr__"):

        @dataclass(frozen=True)
        class _Overwritten:
            a: int

            def __setattr__(self, name: str, value: object) -> None: ...


def test_values_that_can_change_are_not_hashed(dataclass: Decorator) -> None:
    @dataclass
    class Made:
        a: int

    @dataclass(eq=False)
    class Same:
        a: int

    made = Made(1)
    made.a = 3
    del made.a
    with pytest.raises(TypeError, match="unhashable type"):
        hash(Made(1))
    same = Same(1)
    assert same == same != Same(1) and hash(same) == object.__hash__(same)
    assert "__eq__" not in vars(Same) and "__hash__" not in vars(Same)


def test_methods_that_a_class_has_are_kept(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Made:
        a: int

        def __init__(self, given: int) -> None:
            object.__setattr__(self, "a", given + 1)

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert Made(1).a == 2 and repr(Made(1)) == "mine" and Made(1) == Made(2) and hash(Made(1)) == 7

    @dataclass(frozen=True)
    class Compared:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    assert hash(Compared(1)) == hash((1,))

    @dataclass(frozen=True)
    class Derived(Made):
        """Has methods for all its fields, whatever its base has."""

        b: int = 3

    assert (
        repr(Derived(1)).endswith("Derived(a=1, b=3)") and Derived(1) != Derived(2) and hash(Derived(1)) == hash((1, 3))
    )


def test_options_leave_methods_out(dataclass: Decorator) -> None:
    @dataclass(init=False, repr=False, eq=False)
    class Made:
        a: int = 1

    assert Made().a == 1 and repr(Made()).startswith("<") and Made() != Made()
    assert not {"__init__", "__repr__", "__eq__"} & set(vars(Made))


def test_derived_classes_add_fields_after_those_of_their_bases(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Base:
        a: int
        b: int = 2

    @dataclass(frozen=True)
    class Side:
        c: int

    @dataclass(frozen=True)
    class Made(Base, Side):
        d: int = 4
        b: int = 5

    @dataclass(frozen=True)
    class Again(Made):
        b: int

    assert [each.name for each in dataclasses.fields(Made)] == ["c", "a", "b", "d"]
    assert dataclasses.asdict(Made(c=1, a=2)) == {"c": 1, "a": 2, "b": 5, "d": 4}
    assert Again(c=0, a=0).b == 5, "a field that is declared again keeps the default that the class has"
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @dataclass
        class _Thawed(Base):
            pass


def test_a_frozen_class_has_no_base_that_can_change(dataclass: Decorator) -> None:
    @dataclass
    class Base:
        a: int

    with pytest.raises(TypeError, match="cannot inherit frozen dataclass from a non-frozen one"):

        @dataclass(frozen=True)
        class _Made(Base):
            pass


def test_bases_may_have_either_decorator() -> None:
    @records.dataclass(frozen=True)
    class Ours:
        a: int

    @dataclasses.dataclass(frozen=True)
    class Theirs(Ours):
        b: int = 2

    @records.dataclass(frozen=True)
    class Both(Theirs):
        c: int = 3

    assert Both(1) == Both(1, 2, 3) != Both(1, 2, 4) and Theirs(1) == Theirs(1, 2) and hash(Both(1)) == hash((1, 2, 3))
    assert repr(Both(1)).endswith("Both(a=1, b=2, c=3)")
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        dataclasses.dataclass(type("Thawed", (Ours,), {}))


def test_defaults_are_checked_with_the_class(dataclass: Decorator) -> None:
    with pytest.raises(TypeError, match="non-default argument 'b' follows default argument"):

        @dataclass
        class _Ordered:
            a: int = 1
            b: int  # type: ignore[misc]

    with pytest.raises(ValueError, match="mutable default <class 'list'> for field a"):

        @dataclass
        class _Mutable:
            a: list[int] = []

    with pytest.raises(TypeError, match="'a' is a field but has no type annotation"):

        @dataclass
        class _Bare:
            a = field(default=3)


def test_arguments_by_name_alone(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Made:
        a: int = 1
        _: KW_ONLY
        b: int
        c: int = 3

    @dataclass(frozen=True, kw_only=True)
    class Named:
        a: int
        b: int = field(default=2, kw_only=False)

    assert Made(5, b=2) == Made(a=5, b=2, c=3) and Made.__match_args__ == ("a",)
    assert Named(7, a=1).b == 7 and Named.__match_args__ == ("b",)
    with pytest.raises(TypeError, match="positional argument"):
        Made(1, 2)


def test_variables_of_the_class_are_no_fields_and_arguments_can_be_for_post_init_alone(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Made:
        kind: ClassVar[str] = "made"
        a: int
        twice: InitVar[bool] = False
        b: int = field(init=False, default=0)

        def __post_init__(self, twice: bool) -> None:
            object.__setattr__(self, "b", 2 * self.a if twice else self.a)

    assert (Made(3).b, Made(3, True).b, Made(3, twice=True).a) == (3, 6, 3)
    assert [each.name for each in dataclasses.fields(Made)] == ["a", "b"] and Made.kind == "made"
    assert Made.__match_args__ == ("a", "twice")


def test_the_tools_of_the_standard_library_apply(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Inner:
        a: int

    @dataclass(frozen=True)
    class Made:
        inner: Inner
        more: tuple[Inner, ...] = ()
        note: str = field(default="n", metadata={"unit": "m"})

    made = Made(Inner(1), (Inner(2),))
    assert dataclasses.is_dataclass(Made) and dataclasses.is_dataclass(made)
    assert dataclasses.asdict(made) == {"inner": {"a": 1}, "more": ({"a": 2},), "note": "n"}
    assert dataclasses.astuple(made) == ((1,), ((2,),), "n")
    assert dataclasses.replace(made, note="x") == Made(Inner(1), (Inner(2),), "x")
    kept = dataclasses.fields(Made)[2]
    assert (kept.name, kept.type, kept.default, kept.metadata["unit"]) == ("note", "str", "n", "m")
    match made:
        case Made(Inner(a), note=note):
            assert (a, note) == (1, "n")
        case _:
            pytest.fail("not matched")


def test_values_are_copied_and_pickled() -> None:
    made = Point(1, seen=[3])
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other == made and other is not made and other.seen == [3]
    assert copy.copy(made).seen is made.seen and copy.deepcopy(made).seen is not made.seen


def test_generic_and_abstract_classes(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Box(Generic[_T]):
        value: _T

    class Named(abc.ABC):
        @abc.abstractmethod
        def name(self) -> str: ...

    @dataclass(frozen=True)
    class Open(Named):
        a: int

    @dataclass(frozen=True)
    class Closed(Named):
        a: int

        def name(self) -> str:
            return f"{self.a}"

    assert Box[int](3) == Box(3) and Closed(1).name() == "1"
    with pytest.raises(TypeError, match="abstract"):
        Open(1)


def test_a_field_may_be_called_self(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Made:
        self: int
        other: int = 2

    made = Made(self=1)
    assert (made.self, made.other) == (1, 2) and made == Made(1, 2)


def test_methods_of_bases_are_reached_by_super(dataclass: Decorator) -> None:
    @dataclass
    class Base:
        a: int

    @dataclass
    class Made(Base):
        b: int

        def __init__(self, both: int) -> None:
            super().__init__(both)
            self.b = both

        def __repr__(self) -> str:
            return f"<{super().__repr__()}>"

    class Undecorated(Base):
        pass

    assert (Made(3).a, Made(3).b) == (3, 3) and "Made(a=3)" in repr(Made(3))
    assert Undecorated(4).a == 4 and Undecorated(4) == Undecorated(4) != Base(4)


def test_a_class_without_docstring_shows_its_signature(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Made:
        a: int
        b: str = "b"

    assert Made.__doc__ == "Made(a: 'int', b: 'str' = 'b')"


def test_methods_have_the_names_that_they_would_have(dataclass: Decorator) -> None:
    @dataclass(frozen=True)
    class Made:
        a: int

    for name in ("__init__", "__eq__", "__hash__", "__setattr__", "__delattr__"):
        method = getattr(Made, name)
        assert inspect.isfunction(method) and method.__name__ == name
        assert method.__qualname__.endswith(f"<locals>.Made.{name}")


def test_no_method_is_made_before_it_is_used_and_then_once() -> None:
    @records.dataclass(frozen=True)
    class Made:
        a: int

    assert not any(inspect.isfunction(vars(Made)[name]) for name in ("__init__", "__repr__", "__eq__", "__hash__"))
    Made(1)
    assert inspect.isfunction(vars(Made)["__init__"]) and vars(Made)["__init__"] is Made.__init__
    assert not inspect.isfunction(vars(Made)["__eq__"])


def test_the_package_has_no_dataclass_of_another_kind() -> None:
    files = list((ROOT / "tiramisu_py").rglob("*.py"))
    others = [file for file in files if file.name != "records.py" and _imports_the_other(file.read_text())]
    assert others == [] and len(files) > 700


def _imports_the_other(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.startswith(("from dataclasses import", "import dataclasses"))]
    return any(name in {"dataclass", "import dataclasses"} for line in lines for name in (line, *line[24:].split(", ")))
