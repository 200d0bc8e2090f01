"""The stories of `examples/cpu` beside Halide, OpenCV, numba, Devito, and the machine."""
