"""Commands on reductions that change what is combined: partial results as values of their own, terms in parts."""
