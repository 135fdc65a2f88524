"""Every metric with its help text, for /metrics and docs/reference/metrics.md.

The first ones are Azure Monitor's, by its names in Prometheus' spelling, with its dimensions as labels: `topic` is the
name of a topic, in a domain that of a domain topic; `event_subscription_name` and `domain_event_subscription_name` are
as in Azure, and `domain` and `system_topic` name the resource that Azure would show the metric of. The others are ours.
"""

from recapito.api.operate.prometheus_text import Metric

_RESOURCE = ("topic", "domain", "system_topic")
_AZURE = (*_RESOURCE, "event_subscription_name", "domain_event_subscription_name")
_OURS = ("topic", "event_subscription")

PUBLISH_SUCCESS = Metric("eventgrid_publish_success_count", "counter", "Events stored since the start.", _RESOURCE)
PUBLISH_FAIL = Metric(
    "eventgrid_publish_fail_count",
    "counter",
    "Publish requests refused or not stored since the start.",
    (*_RESOURCE, "error_type", "error"),
)
PUBLISH_LATENCY = Metric(
    "eventgrid_publish_success_latency_ms",
    "summary",
    "Milliseconds from accepting a publish request until it is durable.",
    _RESOURCE,
)
UNMATCHED = Metric(
    "eventgrid_unmatched_event_count",
    "counter",
    "Events since the start that no subscription of the topic matched, as far as dispatch has read them.",
    ("topic", "system_topic"),
)
MATCHED = Metric("eventgrid_matched_event_count", "counter", "Events that matched the filter.", _AZURE)
EVALUATED = Metric(
    "eventgrid_advanced_filter_evaluation_count",
    "counter",
    "Events evaluated against advanced filter conditions, after they matched event types and subject; if no event of a"
    " segment matched a filter without event types, all events of the segment.",
    _AZURE,
)
DELIVERY_SUCCESS = Metric("eventgrid_delivery_success_count", "counter", "Events delivered.", _AZURE)
ATTEMPT_FAIL = Metric(
    "eventgrid_delivery_attempt_fail_count",
    "counter",
    "Failed attempts, one for each event of a request.",
    (*_AZURE, "error_type", "error"),
)
DURATION = Metric(
    "eventgrid_destination_processing_duration_ms",
    "summary",
    "Milliseconds from sending a request to its answer or its end without one.",
    _AZURE,
)
DROPPED = Metric(
    "eventgrid_dropped_event_count", "counter", "Events given up without a dead letter.", (*_AZURE, "drop_reason")
)
DEAD_LETTERED = Metric(
    "eventgrid_dead_lettered_count",
    "counter",
    "Events written to the dead-letter destination; reason `Unknown` if it was not counted.",
    (*_AZURE, "dead_letter_reason"),
)

PUBLISHER = {
    "commits": Metric("recapito_commits", "counter", "Commits of published events."),
    "publishes": Metric("recapito_publishes", "counter", "Publish requests stored."),
    "events": Metric("recapito_published_events", "counter", "Events stored."),
    "bytes": Metric("recapito_published_bytes", "counter", "Bytes of events stored."),
    "failed": Metric("recapito_publishes_failed", "counter", "Publish requests whose commit failed."),
    "refused": Metric(
        "recapito_publishes_refused", "counter", "Publish requests refused because intake was busy or closed."
    ),
    "throttled": Metric(
        "recapito_publishes_throttled", "counter", "Publish requests refused because of their topic's rate."
    ),
}
WRONG_SECRETS = Metric(
    "recapito_wrong_secrets",
    "counter",
    "Wrong keys, tokens and secrets since the start, refused at once or slowed down and answered 429.",
    ("at", "answer"),
)
COUNTERS = {
    "matched": Metric("recapito_matched", "counter", "Events that matched the filter.", _OURS),
    "unmatched": Metric("recapito_unmatched", "counter", "Events that did not match the filter.", _OURS),
    "delivered": Metric("recapito_delivered", "counter", "Events delivered.", _OURS),
    "dead_lettered": Metric(
        "recapito_dead_lettered", "counter", "Events written to the dead-letter destination.", _OURS
    ),
}
GIVEN_UP = Metric("recapito_dropped", "counter", "Events given up without a dead letter.", (*_OURS, "reason"))
GAUGES = {
    "pending": Metric(
        "recapito_pending", "gauge", "Events matched and not yet delivered, dead-lettered or dropped.", _OURS
    ),
    "parked": Metric("recapito_parked", "gauge", "Deliveries that wait for their next attempt.", _OURS),
    "buried": Metric("recapito_buried", "gauge", "Dead letters that wait to be written.", _OURS),
}
UNREAD = Metric(
    "recapito_unread_entries", "gauge", "Entries of the topic's log that the lane has not passed: its lag.", _OURS
)
HELD_UNTIL = Metric("recapito_held_until_seconds", "gauge", "End of the hold (probation), 0 without one.", _OURS)
FAILURES = Metric("recapito_hold_failures", "gauge", "Events whose first attempt failed since the last success.", _OURS)
CURSOR = Metric("recapito_cursor_position", "gauge", "Position of the lane's cursor in its topic's log.", _OURS)
STOPPED = Metric("recapito_lane_stopped", "gauge", "1 for a lane that stopped because of an error.", _OURS)
REFUSED = Metric(
    "recapito_lane_refused",
    "gauge",
    "1 for a lane that keeps its events because its endpoint refuses the server.",
    _OURS,
)
WINDOW = Metric("recapito_window_requests", "gauge", "Requests that a busy lane may have open at once.", _OURS)
LANE_OPEN = Metric("recapito_lane_open_requests", "gauge", "Open requests of a busy lane.", _OURS)
LOG_END = Metric("recapito_log_end_position", "gauge", "The last position of the topic's log.", ("topic",))

READY = Metric("recapito_ready", "gauge", "1 while a check of /readyz passes, 0 while it does not.", ("check",))
DAMAGED = Metric(
    "recapito_damaged_records",
    "gauge",
    "Damaged records that were set aside and are not dismissed.",
    ("table",),
)
LANES = Metric("recapito_lanes", "gauge", "Lanes that dispatch runs.")
REQUESTS = Metric("recapito_requests", "counter", "Requests sent since the start of dispatch.")
OPEN = Metric("recapito_open_requests", "gauge", "Requests on the wire, within their 30 seconds.")
OPEN_BYTES = Metric("recapito_open_request_bytes", "gauge", "Bytes of the requests on the wire.")
BLOCKED = Metric(
    "recapito_blocked_lanes", "gauge", "Subscriptions that send nothing until their settlements can be stored."
)
LATE = Metric("recapito_late_requests", "gauge", "Requests that timed out and may still be answered.")
COMMIT_SECONDS = Metric("recapito_commit_seconds", "histogram", "Duration of commits, in seconds.", ("role",))
COMMIT_SIZE = Metric(
    "recapito_commit_size",
    "histogram",
    "Size of commits: publish requests in intake, lanes in dispatch.",
    ("role",),
)
LOOP_DELAY = Metric(
    "recapito_loop_delay_seconds", "histogram", "Delay of the event loop's timers, in seconds.", ("role",)
)

TABLE = (
    PUBLISH_SUCCESS,
    PUBLISH_FAIL,
    PUBLISH_LATENCY,
    UNMATCHED,
    MATCHED,
    EVALUATED,
    DELIVERY_SUCCESS,
    ATTEMPT_FAIL,
    DURATION,
    DROPPED,
    DEAD_LETTERED,
    *PUBLISHER.values(),
    WRONG_SECRETS,
    *COUNTERS.values(),
    GIVEN_UP,
    *GAUGES.values(),
    UNREAD,
    HELD_UNTIL,
    FAILURES,
    CURSOR,
    STOPPED,
    REFUSED,
    WINDOW,
    LANE_OPEN,
    LOG_END,
    READY,
    DAMAGED,
    LANES,
    REQUESTS,
    OPEN,
    OPEN_BYTES,
    LATE,
    BLOCKED,
    COMMIT_SECONDS,
    COMMIT_SIZE,
    LOOP_DELAY,
)
