"""The event log of a call: queries and pictures."""
