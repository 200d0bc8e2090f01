"""The arithmetic of training with activations on SSDs: chapters 5 and 6.2.1 of K. Wu's thesis (UIUC, 2024)."""
