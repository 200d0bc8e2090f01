"""Run by test_plane_convolution in a process of its own: convolutions of planes, compiled with sanitizers."""

from __future__ import annotations

import tiramisu_py as tm
from tests.recipes.test_plane_convolution import CASES, NARROW, WIDE, compare, program
from tests.sanitizers import sanitized_process


def main() -> None:
    for cpu, case in ((WIDE, "plain"), (NARROW, "not padded"), (NARROW, "stride 2")):
        fn, result = program(CASES[case])
        tm.recipes.convolution(result, cpu=cpu)
        compare(fn.compile(threads=2, sanitize=("address", "undefined")), CASES[case])
    print("clean")


if __name__ == "__main__":
    sanitized_process()
    main()
