"""Keeping, computing again, or putting in files: choices for the values that a program reads late."""
