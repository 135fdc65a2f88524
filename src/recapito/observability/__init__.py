"""The journal, traces, diagnostic logs, and the status that dispatch sends to intake.

No line has a secret or a payload, and no sink can delay a delivery.
"""
