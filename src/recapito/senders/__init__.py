"""Senders: implementations of `recapito.sender`."""
