"""Conditions on reductions: every term once, and only complete results leave."""
