"""The handles that declarations and commands return."""
