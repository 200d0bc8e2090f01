"""Files that are relied on: entries of the cache, and compilers."""
