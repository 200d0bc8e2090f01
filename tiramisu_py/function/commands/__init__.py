"""The public commands, a module a family."""
