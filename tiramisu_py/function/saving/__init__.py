"""An algorithm and its schedule as a file: its contents, and how it is read."""
