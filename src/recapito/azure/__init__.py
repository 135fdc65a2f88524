"""Microsoft's clients for storage, Service Bus and Event Hubs: guarded, their faults as Outcomes.

Nothing here is imported before a connection needs it.
"""
