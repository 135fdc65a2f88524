"""Requests to a storage account's blob service, and the events that Azure Storage makes of those that succeed.

Pure: a front that stands before an emulator hands in heads of requests and answers. The law: an operation that commits
a blob, deletes it or renames it has exactly one event; parts of an upload, metadata and leases have none.
"""
