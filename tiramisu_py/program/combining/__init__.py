"""In which tree partial results are combined."""
