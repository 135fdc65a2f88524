"""Dead letters: the record that is written, the parser that reads it again, and the notice of a written blob.

A record has the event as it was sent, so that a redrive publishes the same event.
"""
