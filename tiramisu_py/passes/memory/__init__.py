"""Passes on the memory of temporaries: how long each lives, and which of them have the same memory in turns."""
