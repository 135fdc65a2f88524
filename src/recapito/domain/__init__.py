"""Event Grid's rules as pure functions and values.

The law: no await, no clock, no randomness, no I/O; the caller passes in the instant and the chance. Rules that changed
over the years are rows of `profiles/*.toml`, never a branch on a year.
"""
