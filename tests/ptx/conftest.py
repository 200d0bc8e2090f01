"""Tests marked `ptx` run in a process of their own, which has the machine."""

from __future__ import annotations

import pytest

from tests.ptx import running


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if pyfuncitem.get_closest_marker("ptx") is None or running.is_here():
        return None
    arguments = pyfuncitem.callspec.params if hasattr(pyfuncitem, "callspec") else {}
    said = running.call(pyfuncitem.obj, arguments)
    if said:
        pytest.fail(f"on the machine for PTX:\n{said}", pytrace=False)
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("ptx") and running.missing():
            item.add_marker(pytest.mark.skip(reason=running.missing()))


@pytest.fixture(scope="session", autouse=True)
def machine() -> None:
    """Skips where the machine itself cannot be compiled."""
    if running.missing(kernels=False):
        pytest.skip(running.missing(kernels=False))
