"""Event Grid's behaviour by date: one TOML file for each profile, and the struct that reads it.

A new year is a new file. No rule depends on the name of a profile.
"""
