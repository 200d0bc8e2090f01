"""``python -m tests.ptx COMMAND ...``: runs a command whose GPUs are the machine for PTX."""

from __future__ import annotations

import os
import sys

from tests.ptx.running import environment

if __name__ == "__main__":
    os.execvpe(sys.argv[1], sys.argv[1:], environment())
