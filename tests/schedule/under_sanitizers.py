"""Run by test_sanitizers in a process of its own: all cases of test_commands, compiled with sanitizers."""

from __future__ import annotations

import sys

import numpy as np

from tests.sanitizers import sanitized_process
from tests.schedule.test_commands import CASES, _arguments, _sizes


def main(part: int, parts: int) -> None:
    for name, make, schedule in CASES[part::parts]:
        s = make()
        schedule(s)
        kernel = s.f.compile(sanitize=("address", "undefined"))
        chosen = _sizes(s)
        for sizes in chosen[:: max(1, len(chosen) // 12)]:
            arrays = _arguments(s, sizes)
            wanted = s.f.evaluate(**arrays, **sizes)
            np.testing.assert_array_equal(kernel(**arrays, **sizes), wanted, err_msg=name)
    print("clean")


if __name__ == "__main__":
    sanitized_process()
    main(int(sys.argv[1]), int(sys.argv[2]))
