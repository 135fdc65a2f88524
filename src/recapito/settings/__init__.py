"""Settings: `defaults.toml` is the default, the schema and the manual; files, environment and flags come on top.

A wrong setting is refused at the start with its key and its source. Nothing else reads the environment.
"""
