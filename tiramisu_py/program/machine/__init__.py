"""The machine as a program names it: kinds of GPUs, pages of memory, pins of threads, parts of arrays on ranks."""
