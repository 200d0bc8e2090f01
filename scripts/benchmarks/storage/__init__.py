"""Values kept, in files, and computed again: bytes, time and bits, each in a process of its own."""
