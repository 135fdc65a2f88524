"""The machinery of commands: flags as az has them, the session with a server, output, exit codes, quick start-up.

This is the only place that touches the insides of Typer.
"""
