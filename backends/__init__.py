"""Code particular to a target: one folder for each."""
