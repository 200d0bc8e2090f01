"""The public commands, one module for each family."""
