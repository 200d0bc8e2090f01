"""One instance of a statement as code: its places, its guards, its comment."""
