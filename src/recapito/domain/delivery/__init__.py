"""One event on its way to one subscription: batches, outcomes, retries, holds, and the cursor of a lane.

`delivery.decide` is the only place that chooses between done, retry and dead; a failed delivery is a value.
"""
