"""From an accepted request to a durable segment: group commit, rates, counters and the watch over free space."""
