"""Scripted receivers: webhooks that consent to handshakes, answer by the script of a test, and keep their requests."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any

from recapito.domain.instant import show_duration
from recapito.testing.answer import Answer, Duration, EventId, Request, Script, perform, seconds_of
from recapito.testing.clock import ServerClock
from recapito.testing.story import FilterLine, Story, StoryAttempt, tell_story


class Receiver:
    """A webhook of a test. Its assertions do everything that is due first, and show all attempts when they fail."""

    def __init__(
        self,
        url: str,
        script: Script,
        clock: ServerClock,
        published: Mapping[str, datetime],
        jitter: float = 0.0,
        explain: Callable[[str], list[FilterLine]] = lambda event_id: [],
    ) -> None:
        self.url = url
        self._script = script
        self._clock = clock
        self._published = published
        self._jitter = jitter
        self._explain = explain
        self._requests: list[Request] = []
        self._turn = Lock()

    def __repr__(self) -> str:
        return f"<Receiver at {self.url}, {len(self._requests)} requests>"

    @property
    def requests(self) -> list[Request]:
        """The requests with events, in order; without handshakes."""
        with self._turn:
            return list(self._requests)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The accepted events in the order of arrival, with repetitions."""
        return [event for request in self.requests if request.delivered for event in request.events]

    def take(self, request: Request) -> Answer:
        """Keep a request; its answer."""
        with self._turn:
            self._requests.append(request)
            step = self._script.next()
        answer = perform(step, request)  # a function may take its time, and look at the receiver
        request.status = answer.status
        return answer

    def attempts(self, event_id: EventId) -> list[StoryAttempt]:
        """The attempts to deliver an event up to now."""
        return self._story(event_id).attempts

    def assert_delivered(
        self, event_id: EventId, *, attempt: int | None = None, after: Duration | None = None, times: int | None = None
    ) -> Request:
        """Assert that an event was delivered: on this attempt, at this time after publishing, this many times."""
        __tracebackhide__ = True
        story = self._story(event_id)
        delivery = story.delivery
        if delivery is None:
            trouble = "was not delivered" if story.attempts else "never arrived"
            raise AssertionError(self._tell(story, trouble))
        told = f"was delivered on attempt {delivery.number} at +{show_duration(delivery.after_s)}"
        if attempt is not None and delivery.number != attempt:
            raise AssertionError(self._tell(story, f"{told}, not on attempt {attempt}"))
        if after is not None and not story.is_at(delivery, seconds_of(after)):
            raise AssertionError(self._tell(story, f"{told}, not at +{show_duration(seconds_of(after))}"))
        count = sum(one.request.delivered for one in story.attempts)
        if times is not None and count != times:
            raise AssertionError(self._tell(story, f"was delivered {_times(count)}, not {_times(times)}"))
        return delivery.request

    def assert_not_delivered(self, event_id: EventId) -> None:
        """Assert that an event was not delivered here up to now."""
        __tracebackhide__ = True
        story = self._story(event_id)
        if story.delivery is not None:
            raise AssertionError(self._tell(story, "was delivered, and should not have been"))

    def assert_attempted(self, event_id: EventId, *, at: Sequence[Duration]) -> None:
        """Assert that an event was tried at exactly these times after publishing, whatever the answers."""
        __tracebackhide__ = True
        story = self._story(event_id)
        expected = [seconds_of(time) for time in at]
        pairs = zip(story.attempts, expected, strict=False)
        if len(story.attempts) != len(expected) or not all(story.is_at(one, time) for one, time in pairs):
            wanted = ", ".join(f"+{show_duration(time)}" for time in expected) or "never"
            raise AssertionError(self._tell(story, f"was not tried at just these times: {wanted}"))

    def _story(self, event_id: EventId) -> Story:
        self._clock.settle()
        id = str(event_id)
        published_at = self._published.get(id)
        return tell_story(id, repr(self), self.requests, published_at, self._clock.now, self._jitter)

    def _tell(self, story: Story, trouble: str) -> str:
        others = dict.fromkeys(id for request in self.requests for id in request.ids)
        verdicts = [] if story.attempts else self._explain(story.event_id)
        return story.tell(trouble, [*others], verdicts)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
