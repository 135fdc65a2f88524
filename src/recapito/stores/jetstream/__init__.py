"""Streams on NATS JetStream: the connection, the two streams of a store, and the checks before they are used."""
