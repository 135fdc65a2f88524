"""Stores and vaults that break: the n-th call, of all that share the count, is the last thing that happens."""

from typing import Any


class Crash(BaseException):
    """The process is gone."""


class Steps:
    """How many calls are left until the crash, and whether the last one is still done."""

    def __init__(self, count: int = -1, done: bool = False) -> None:
        self.count = count
        self.done = done


class Breaking:
    """A store or a vault; of its calls only those to `verbs` are counted, if any are named."""

    def __init__(self, inner: Any, steps: Steps, verbs: frozenset[str] = frozenset()) -> None:
        self._inner = inner
        self._steps = steps
        self._verbs = verbs

    def __getattr__(self, verb: str) -> Any:
        call = getattr(self._inner, verb)
        if self._verbs and verb not in self._verbs:
            return call

        async def step(*args: Any) -> Any:
            self._steps.count -= 1
            if self._steps.count == 0 and not self._steps.done:
                raise Crash(verb)
            result = await call(*args)
            if self._steps.count == 0:
                raise Crash(verb)
            return result

        return step
