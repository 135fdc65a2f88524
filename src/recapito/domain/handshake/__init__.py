"""The two handshakes with a webhook: the requests, the verdict on an answer, and the advice after a refusal."""
