"""The GPU runtime, and arrays on GPUs."""
