"""Topics, subscriptions, groups and storage accounts: created, changed and deleted under Event Grid's rules.

The API hands in drafts; a draft becomes a resource only after all checks and the endpoint's consent.
"""
