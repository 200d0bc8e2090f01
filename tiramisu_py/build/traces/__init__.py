"""The event log of a call, asked and drawn."""
