"""A pytest plugin for programs that publish to Event Grid or receive its events, and the objects of its fixtures.

pytest finds the plugin by itself; the rest is loaded when a test asks for the fixture `recapito`.
"""

from recapito.testing.answer import Answer, Request, answer, drop, hang

__all__ = ["Answer", "Request", "answer", "drop", "hang"]
