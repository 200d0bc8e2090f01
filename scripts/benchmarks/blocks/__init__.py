"""The kernels of `examples/blocks` on cores, beside libraries and beside schedules of algorithms."""
