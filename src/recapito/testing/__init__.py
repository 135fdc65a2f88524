"""For tests of programs that publish to Event Grid or are called by it: a pytest plugin, and what it hands out.

pytest finds the plugin by itself; the rest is loaded when a test asks for the fixture `recapito`.
"""

from recapito.testing.answer import Answer, Request, answer, drop, hang

__all__ = ["Answer", "Request", "answer", "drop", "hang"]
