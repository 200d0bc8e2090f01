"""The processor time of a run: by room, of the tests and of all processes that they start, beside the budget."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from tests import forking
from tests.tiers.budget import budget, room_of

_SECONDS = "processor seconds"


def used() -> float:
    """Seconds of processor time that this process, and those that it has started and seen the end of, have taken."""
    return sum(os.times()[:4]) + forking.used()


class Meter:
    """Measures each test of a process. The property of a report goes to the process that asks for a summary."""

    def __init__(self) -> None:
        self._begun = 0.0
        self._in_tests = 0.0

    @property
    def beside(self) -> float:
        """What this process has taken beside tests: imports, collection."""
        return (used() if self._in_tests else time.process_time()) - self._in_tests

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        self._begun = used()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            seconds = used() - self._begun
            self._in_tests += seconds
            report.user_properties.append((_SECONDS, seconds))
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_SECONDS] = self.beside


class Account:
    """Adds up what the tests of a run, and its workers beside them, have taken; prints it beside the budget."""

    def __init__(self, meter: Meter, everything: bool, whole: bool) -> None:
        self.rooms = Counter[str]()
        self._meter = meter
        self._beside = 0.0
        self._limits: Mapping[str, float] = budget().all if everything else budget().plain
        self._judged = everything and whole
        self._whole = whole

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.rooms[room_of(report.nodeid)] += dict(report.user_properties).get(_SECONDS, 0.0)  # type: ignore[arg-type]

    def pytest_testnodedown(self, node: Any) -> None:
        self._beside += getattr(node, "workeroutput", {}).get(_SECONDS, 0.0)

    def over(self) -> list[str]:
        """The rooms that have taken more than their budget."""
        return [room for room, seconds in self.rooms.items() if seconds > self._limits.get(room, 0)]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._judged and self.over() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        beside = self._beside + self._meter.beside
        terminalreporter.section("processor seconds, and the budget")
        for room, seconds in sorted(self.rooms.items(), key=lambda each: -each[1]):
            limit = self._limits.get(room, 0)
            over = "   over its budget" if self._whole and seconds > limit else ""
            terminalreporter.write_line(f"{room:32} {seconds:7.1f} of {limit:5.0f}{over}")
        terminalreporter.write_line(f"{'imports and collection':32} {beside:7.1f}")
        terminalreporter.write_line(f"{'all':32} {sum(self.rooms.values()) + beside:7.1f} of {sum(self._limits.values()):5.0f}")
        if self._judged and self.over():
            terminalreporter.write_line(f"over their budget (tests/tiers/budget.toml): {', '.join(self.over())}")
