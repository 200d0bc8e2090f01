"""Points for given sizes, in the order of their predicted times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from tiramisu_py.queries import Command
from tiramisu_py.records import dataclass
from tiramisu_py.tuning.search.tuned import duration


@dataclass(frozen=True)
class Choice:
    """A legal point for some sizes: its `seconds` as the model predicts them (None without a prediction), and as
    `measured` (None if it was not). `commands` make the schedule: ``tm.Function.of(f.algorithm, choice.commands)``.
    """

    parameters: Mapping[str, Any]
    seconds: float | None
    measured: float | None = None
    commands: tuple[Command, ...] = ()

    def __str__(self) -> str:
        named = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        predicted = "" if self.seconds is None else f", predicted {duration(self.seconds)}"
        return f"{named}{predicted}" + ("" if self.measured is None else f", measured {duration(self.measured)}")


@dataclass(frozen=True)
class Choices:
    """The points for some sizes, the best one first."""

    every: tuple[Choice, ...]

    def __len__(self) -> int:
        return len(self.every)

    @overload
    def __getitem__(self, index: int) -> Choice: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Choice]: ...

    def __getitem__(self, index: int | slice) -> Choice | Sequence[Choice]:
        return self.every[index]

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.every)

    def __str__(self) -> str:
        """Each point with its times, and the commands of the first one."""
        first = self.every[0].commands if self.every else ()
        return "\n".join([*map(str, self.every), *(f"    {command}" for command in first)])
