"""For operators and their tools: health, metrics, the clock, lanes, deliveries, dead letters, connections, damage."""
