"""The two handshakes with a webhook: the requests, the judgement of an answer, and the advice for a refusal."""
