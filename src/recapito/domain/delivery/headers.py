"""The names of Event Grid's own headers and the values of `aeg-event-type`: once, for senders and receivers."""

PREFIX = "aeg-"
"""The start of every name that Event Grid keeps for itself."""

EVENT_TYPE = "aeg-event-type"
SUBSCRIPTION_NAME = "aeg-subscription-name"
DELIVERY_COUNT = "aeg-delivery-count"
DATA_VERSION = "aeg-data-version"
METADATA_VERSION = "aeg-metadata-version"
OUTPUT_EVENT_ID = "aeg-output-event-id"

NOTIFICATION = "Notification"
VALIDATION = "SubscriptionValidation"
DELETION = "SubscriptionDeletion"

SAS_KEY = "aeg-sas-key"
SAS_TOKEN = "aeg-sas-token"
