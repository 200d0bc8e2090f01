"""An algorithm and its schedule as a file: what is said in it, and how it is read."""
