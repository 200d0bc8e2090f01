"""The stories of `examples/linear` beside libraries of linear algebra."""
