"""Vaults: implementations of `recapito.vault`."""
