"""A kernel: the loops of one thread."""
