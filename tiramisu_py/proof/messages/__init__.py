"""Conditions between ranks: messages match, requests are free, nobody waits for ever."""
