"""Event Grid's rules, pure: no await, no clock, no randomness, no I/O."""
