"""One execution of a statement as code: its places, its guards, its comment."""
