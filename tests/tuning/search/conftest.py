"""What the tests of searches share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuning.search.laboratory import Laboratory


@pytest.fixture
def laboratory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Laboratory:
    """A laboratory with a database of its own."""
    return Laboratory(monkeypatch, tmp_path)
