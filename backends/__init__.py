"""Code for each target, and what it runs on.

`c` is imported before the others: it emits the host's part, which refers to the parts of the other targets.
"""

from tiramisu_py.backends.c import emit

__all__ = ["emit"]
