"""Tests of the sets."""
