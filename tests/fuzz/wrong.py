"""The error that a target raises."""


class Wrong(AssertionError):
    """The service did something that it must never do."""
