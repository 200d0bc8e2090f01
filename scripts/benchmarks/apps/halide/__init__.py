"""The apps in Halide, with the schedules for CPUs that come with them."""
