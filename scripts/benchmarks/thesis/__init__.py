"""The experiments of the thesis, chapter 5."""
