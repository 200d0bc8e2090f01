"""The small extensions of docs/extending.md, each of which a test runs."""
