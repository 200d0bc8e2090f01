"""Findings of conditions: how they are said, and what would repair them."""
