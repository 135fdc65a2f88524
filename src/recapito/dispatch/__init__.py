"""Dispatch sends out: one lane per subscription, and the writer of dead letters."""
