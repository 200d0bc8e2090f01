"""The state that commands change, and how a command is written in the log."""
