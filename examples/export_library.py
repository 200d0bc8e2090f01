"""A C library from an algorithm: exported, built by its own Makefile, and called from a C program without Python."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import tiramisu_py as tm

R, C = tm.params("R C")
r, c = tm.iters("r c")

f = tm.Function("contrast", params=[R, C])
gain = f.scalar("gain", tm.float32)
image = f.input("image", tm.uint8, [R, C])
stretched = gain * (tm.cast(tm.float32, image[r, c]) - 128) + 128
out = f.computation("out", {r: R, c: C}, tm.cast(tm.uint8, tm.min(tm.max(stretched, 0), 255)))
f.outputs(out)
out.parallelize(r)

PROGRAM = r"""
#include <stdio.h>
#include "contrast.h"

int main(void) {
    const uint8_t image[6] = {0, 100, 128, 138, 200, 255};
    uint8_t out[6];
    if (contrast(2, 3, 2.0f, image, out) != 0) {
        fprintf(stderr, "%s\n", contrast_last_error());
        return 1;
    }
    for (int i = 0; i < 6; i++) printf("%d ", out[i]);
    if (contrast(2, 3, 2.0f, NULL, out) == 0) return 2;
    printf("\nrefused: %s\n", contrast_last_error());
    return 0;
}
"""

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    f.compile().export(folder)
    (folder / "main.c").write_text(PROGRAM)
    print("exported:", *sorted(path.name for path in folder.iterdir()))
    print((folder / "contrast.h").read_text())
    subprocess.run(["make", "-s", "-C", name, "clean", "all"], check=True)
    link = ["cc", "-Wall", "-Werror", "main.c", "-L.", "-lcontrast", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(link, cwd=folder, check=True)
    printed = subprocess.run(["./main"], cwd=folder, check=True, capture_output=True, text=True).stdout
print(printed, end="")
assert printed.startswith("0 72 128 148 255 255 \n"), printed
print("right: the C program has the bytes that the algorithm names")
