"""Run by test_sanitizers in a process of its own: time tiles, compiled with sanitizers."""

from __future__ import annotations

from tests.sanitizers import sanitized_process
from tests.schedule.locality.test_time_tiles import as_numpy, i, plate, rod, same, sizes_of, t, x, y


def main() -> None:
    sanitized = {"sanitize": ("address", "undefined")}
    f, heat = plate()
    heat.time_tile(t, 5, {y: 8, x: 160})
    heat.vectorize(x, 16, remainder="mask")
    as_numpy(f, [(0, 9, 165), (4, 19, 340), (6, 3, 3), (11, 9, 165)], **sanitized)
    f, heat = rod(2)
    heat.time_tile(t, 4, {i: 12}, wavefront={i: 4})
    same(f, sizes_of(T=(0, 3, 9), N=(1, 12, 29)), **sanitized)
    print("clean")


if __name__ == "__main__":
    sanitized_process()
    main()
