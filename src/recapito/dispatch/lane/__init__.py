"""A lane: everything that goes to one subscription, from the log or from the parked rows to a settlement.

    reads       `log_reader` takes fresh events behind the cursor, `due_queue` parked deliveries that have come due
    sends       `in_flight` is one request with its deliveries, `late_answers` listens on after 30 seconds
    decides     `failure` asks `domain.delivery` and parks, buries or drops; `cancellation` ends a deleted subscription
    settles     `books` holds the stored row, `settlement_builder` gathers the rows of the next commit

A lane has no task and no lock: `Lane.step` is synchronous and runs on the dispatcher's loop. A delivery is in exactly
one place: unread behind the cursor, parked, in flight, staged for a commit, or ended.
"""
