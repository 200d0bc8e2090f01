"""The checker of certificates as a module, and what it says of a certificate."""

from __future__ import annotations

import json
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import islpy as isl

ROOT = Path(__file__).resolve().parents[3]
CHECKER = ROOT / "scripts" / "verify_certificate"


@cache
def checker() -> ModuleType:
    """`scripts/verify_certificate`, which has no ending, as a module."""
    loader = SourceFileLoader("verify_certificate", str(CHECKER))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def judged(document: dict[str, Any]) -> str:
    """What the checker says: "" where it accepts, or the claim that is not shown, or what it cannot read."""
    try:
        assert checker().Certificate(json.loads(json.dumps(document))).check() > 0
    except checker().Rejected as claim:
        return str(claim)
    except (LookupError, TypeError, isl.Error) as error:
        return f"no certificate: {error!r}"
    return ""
