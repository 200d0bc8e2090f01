"""isl's tree of one nest as loop IR."""
