"""The apps of `examples/apps` beside Halide with its own schedules, and OpenCV."""
