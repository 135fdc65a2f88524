"""The types of the events of Azure Storage that a front makes."""

BLOB_CREATED = "Microsoft.Storage.BlobCreated"
BLOB_DELETED = "Microsoft.Storage.BlobDeleted"
BLOB_RENAMED = "Microsoft.Storage.BlobRenamed"
