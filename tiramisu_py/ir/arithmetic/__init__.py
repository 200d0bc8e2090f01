"""Index expressions: linear forms, value ranges and folding."""
