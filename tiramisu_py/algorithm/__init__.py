"""Layer I: what each value is. Types, expressions, domains, computations, soundness, and `evaluate`."""
