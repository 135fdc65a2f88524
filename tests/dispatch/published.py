"""Events as publishers send them, in each schema."""

from recapito.domain.events.schema import InputSchema


def published(schema: InputSchema, *data: str) -> bytes:
    """A publish request of events with these data; a custom event is an object around them."""
    match schema:
        case InputSchema.EVENT_GRID:
            head, tail = (
                '{"id":"1","subject":"s","eventType":"t","eventTime":"2026-01-01T00:00:00Z","dataVersion":"7"',
                "",
            )
        case InputSchema.CLOUD_EVENT:
            head, tail = '{"id":"1","source":"s","type":"t"', ',"specversion":"1.0"'
        case InputSchema.CUSTOM:
            head, tail = '{"own":"x"', ""
    events = [head + ',"data":' + text + tail + "}" for text in data]
    return f"[{','.join(events)}]".encode()
