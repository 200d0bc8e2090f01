"""What a program names of the machine: kinds of GPUs, pages of memory, pins of threads, parts of arrays on ranks."""
