"""The nodes of a cluster: `memory` for tests, `nats` on a JetStream stream of its own."""
