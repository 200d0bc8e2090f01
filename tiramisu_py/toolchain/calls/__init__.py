"""One call: arguments, arrays, ranks."""
