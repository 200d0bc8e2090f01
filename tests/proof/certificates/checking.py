"""The checkers of certificates as modules, and what they say of a certificate."""

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
OF_MESSAGES = ROOT / "scripts" / "verify_messages"


@cache
def checker(path: Path = CHECKER) -> ModuleType:
    """A script of the checkers, which have no endings, as a module."""
    loader = SourceFileLoader(path.name, str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def judged(document: dict[str, Any]) -> str:
    """What the checkers say: "" where both accept, or the claim that is not shown, or what they cannot read."""
    text = json.dumps(document)
    try:
        checker().Certificate(json.loads(text)).check()
        checker(OF_MESSAGES).Messages(json.loads(text)).check()
    except AssertionError as claim:
        return str(claim)
    except (LookupError, TypeError, isl.Error) as error:
        return f"no certificate: {error!r}"
    return ""
