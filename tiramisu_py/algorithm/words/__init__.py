"""Short words for common expressions, by the names that Halide gives them."""
