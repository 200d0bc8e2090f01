"""``python -m tests.ptx.calling MODULE FUNCTION ARGUMENTS``: calls a function, with arguments that were pickled."""

from __future__ import annotations

import importlib
import pickle
import sys


def main(module: str, function: str, arguments: str) -> None:
    getattr(importlib.import_module(module), function)(**pickle.loads(bytes.fromhex(arguments)))


if __name__ == "__main__":
    main(*sys.argv[1:])
