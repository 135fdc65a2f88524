"""Resources under Azure Resource Manager's paths, with the statuses that the Azure SDKs accept."""
