"""The role that sends events out; it alone writes the ledger.

The dispatcher steps lanes (`lane/`) over the topics' logs (`feed/`), commits their settlements together and writes dead
letters. Whatever could be delivered is delivered in bounded time.
"""
