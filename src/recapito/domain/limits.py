"""Every limit on input and on growth, in one place, with their relations asserted.

Sizes are bytes and end in `_BYTES`; durations are nanoseconds and end in `_NS`.
"""

from recapito.domain.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND

KB = 1024
MB = 1024 * KB

# Publishing (Event Grid's quotas).
PUBLISH_BYTES = 1 * MB
PUBLISH_EVENTS = 5000
EVENT_BYTES = 1 * MB
EVENT_FIELD_CHARS = 4096
JSON_DEPTH = 64

# Resources.
TOPIC_NAME_CHARS = (3, 50)
SUBSCRIPTION_NAME_CHARS = (3, 64)
TOPICS = 100_000
SYSTEM_TOPIC_NAME_CHARS = (3, 128)
DOMAIN_TOPIC_NAME_CHARS = (3, 128)
ACCOUNT_NAME_CHARS = (3, 24)
SUBSCRIPTIONS_PER_TOPIC = 500
SUBSCRIPTIONS_PER_DOMAIN = 50  # on the domain itself; its topics have their own limit
TOPICS_PER_DOMAIN = 100_000
IP_RULES = 128
MANAGE_BODY_BYTES = 256 * KB
URL_CHARS = 2048
HOST_CHARS = 253
TAGS = 15
TAG_CHARS = 256
LABELS = 100
FILTER_EVENT_TYPES = 1000
FILTER_CHARS = 512
FILTER_CONDITIONS = 25
FILTER_VALUES = 25  # of all conditions together (spec A19)
DELIVERY_ATTRIBUTES = 10
ATTRIBUTE_NAME_CHARS = 256
LANE_RATE = (1, 1_000_000)  # events per second that an operator may set
SIGNING_SECRET_BYTES = (24, 64)  # Standard Webhooks' bounds
SIGNING_SECRETS = 2  # of a subscription: one, and its former one while receivers change over
ATTRIBUTE_VALUE_BYTES = 4096
LABEL_CHARS = 256
CONTAINER_NAME_CHARS = (3, 63)
SCOPE_CHARS = (1, 90)
RESOURCE_ID_CHARS = 1024
CONNECTION_CHARS = 4096
QUEUE_NAME_CHARS = (3, 63)
QUEUE_MESSAGE_TTL_S = (1, 2**31 - 1)
QUEUE_MESSAGE_TTL_S_DEFAULT = 7 * 24 * 60 * 60
QUEUE_MESSAGE_FOREVER = -1
LOCATION_CHARS = (1, 64)
LIST_PAGE = (1, 100)
LIST_PAGE_DEFAULT = 20
SKIP_TOKEN_CHARS = 256
LIST_FILTER_CHARS = 2048
LIST_FILTER_TOKENS = 128
TOPIC_CACHE = 10_000
TALLIES = 100_000  # topics whose publishes are counted

# Access.
SAS_TOKEN_CHARS = 4096
BEARER_TOKEN_CHARS = 16 * KB
VERIFIED_TOKENS = 10_000
WEBHOOK_TOKENS = 10_000
PEER_CACHE = 10_000
BEARER_LIFE_NS = 1 * HOUR
BEARER_LIFE_UNREAL_NS = 366 * DAY
TOKEN_REQUEST_BYTES = 64 * KB
ISSUER_PAUSE_NS = 1 * MINUTE
ISSUER_KEYS_NS = 1 * DAY
ISSUER_WAIT_NS = 10 * SECOND
WRONG_SECRETS = 20  # at once, from one address or for one principal or topic; then one in each refill:
WRONG_SECRET_REFILL_NS = 1 * SECOND
GUESSERS = 10_000  # addresses, principals and topics whose wrong secrets are counted
GUESSER_IPV6_BITS = 64
HELD_REFUSALS = 16  # of one address
HELD_REFUSALS_IN_ALL = 1000
HELD_REFUSAL_NS = SECOND // 10
GUESSING_TOLD_NS = 10 * SECOND

# Retry policy and batching (Event Grid's ranges and defaults).
ATTEMPTS = (1, 30)
ATTEMPTS_DEFAULT = 30
TTL_MINUTES = (1, 1440)
TTL_MINUTES_DEFAULT = 1440
BATCH_EVENTS = (1, 5000)
BATCH_EVENTS_DEFAULT = 1
BATCH_KILOBYTES = (1, 1024)
BATCH_KILOBYTES_DEFAULT = 64
UNLIMITED = 1 << 40  # attempts or minutes, where a profile keeps events
CUT_EVENTS = 32  # in a request with an event that was refused once in the company of more
ATTEMPTS_IN_COMPANY = 2  # an event that failed this many times is retried in a request of its own

# The search for the newest waiting event, when a probe is due: entries of the log, and events parked untried.
PROBE_ENTRIES = 16
PROBE_EVENTS = 16

# The log.
SEGMENT_BYTES = 4 * MB
SEGMENT_EVENTS = 5000
TRIM_SLICE = 64
WAL_CHECKPOINT_BYTES = 4 * MB
WAL_KEPT_BYTES = 16 * MB
LOG_PAGE_BYTES = 16 * KB  # segments are large: a commit of one needs a quarter of the writes that it needs with 4 KB
DISPATCH_PAGE_BYTES = 4 * KB  # rows of lanes and parked deliveries are small and scattered
PAGE_CACHE_BYTES = 16 * MB

# The stream of a replicated file: its compaction, and the parts that are reserved for settling and for claims.
COMPACTION_LEAST_BYTES = 32 * MB
COMPACTION_SLICE_BYTES = 256 * KB
COMPACTION_FILL = 0.5
STREAM_APPENDS_FILL = 0.8
STREAM_WRITES_FILL = 0.9

# The volume.
BALLAST_BYTES = 64 * MB
OPENING_BYTES = 256 * KB  # needed to open both files: a WAL and its index each
DISK_STOP_FRACTION = 0.05
DISK_STOP_BYTES = 512 * MB
DISK_STOP_LEAST_BYTES = 16 * MB  # or an eighth of a small volume

# Intake's queue in front of the commit.
WAITING_PUBLISHES = 10_000
WAITING_BYTES = 32 * MB
PUBLISH_WAIT_NS = 2 * SECOND  # the default; a setting
HEAD_BYTES = 64 * KB  # the request line and the headers, or the trailers
READING_BYTES = 64 * MB
READING_NS = 60 * SECOND
SKIPPED_BYTES = 16 * MB  # read of a body that is too large, so that its sender can read the answer

# One POST /clock/advance, in seconds.
ADVANCE_S = (0, 30 * 24 * 60 * 60)

# An exchange with an endpoint.
ANSWER_WAIT_NS = 30 * SECOND
LATE_ANSWER_WAIT_NS = 180 * SECOND
REQUEST_SENDS = 2  # in one attempt: a kept-open connection may break under it
LATE_EXCHANGES = 1000
LATE_EXCHANGE_BYTES = 64 * MB
RESPONSE_HEADER_BYTES = 64 * KB
RESPONSE_HEADERS = 100
RESPONSE_BODY_BYTES = 64 * KB
RESPONSE_EXCERPT_BYTES = 1 * KB
RETRY_AFTER_NS = 60 * MINUTE
RETRY_AFTER_BELIEVED_NS = 366 * DAY
RESPONSE_INTERIM = 5
RESPONSE_BODY_WAIT_NS = 5 * SECOND
HEADER_VALUE_CHARS = 4096
CONNECT_WAIT_NS = 10 * SECOND
CONNECTION_AGE_NS = 5 * MINUTE
CONNECTION_IDLE_NS = 1 * MINUTE
IDLE_CONNECTIONS = 512
ROUTES = 10_000

# Handshakes (Event Grid's window; its number of tries is not documented).
HANDSHAKE_TRIES = 3
HANDSHAKE_PAUSE_NS = 5 * SECOND
HANDSHAKE_WINDOW_NS = 10 * MINUTE
HANDSHAKE_EXCERPT_CHARS = 200
HANDSHAKES = 100
DELETION_NOTICES = 100
CALLBACK_CHARS = 512

# Name look-ups.
LOOKUP_WAIT_NS = 5 * SECOND
LOOKUP_THREADS = 64
LOST_LOOKUP_THREADS = 64
ADDRESSES = 16
RESOLVED_NAMES = 10_000
RESOLVED_NS = 30 * SECOND
UNRESOLVED_NS = 5 * SECOND

# Lanes.
RUSH_NS = DAY  # a request to try what is parked is forgotten at a restart after this time
WINDOW_START = 2
WINDOW_REQUESTS = 64
WINDOW_BYTES = 8 * MB
UNSETTLED_WINDOWS = 4
OPEN_EXCHANGES = 512
OPEN_EXCHANGES_LEAST = 4  # a quarter is kept for lanes whose endpoint answers
OPEN_BYTES = 64 * MB
COLD_READERS = 16
SEGMENT_CACHE_BYTES = 64 * MB
PARKED_SLICE = 1000
PARKED_SLICE_LEAST = 16  # while all lanes together have gathered more than:
GATHERED_ROWS = 5 * PARKED_SLICE
COMMIT_BYTES = 16 * MB  # of one settling commit, unless one lane alone has more
GATHERED_BYTES = 32 * MB  # of retries that have come due
PARKED_SLICE_BYTES = 4 * MB
SPARSE_FILTER = 16
LOOK_AHEAD_EVENTS = (
    512  # with other headers, half or all of which a batch leaves to later ones to find more events of its own
)
LOAD_RANGES = 256  # of the log that one batch is cut from
SCATTERED_RANGES = 2048  # of one lane, under way or left: its cursor never has more finished ranges
TAIL_ENTRIES = 2048
TAIL_WAKE_KEYS = 64  # of one entry; an entry with more wakes every lane
COMPILED_FILTERS = 10_000
FIELD_READERS = 1000
FIELD_READER_KEYS = 100  # of all filters of a topic together; a filter beyond it reads for itself

# History.
HISTORY_WAITING_EVENTS = 100_000  # recorded and not stored yet
HISTORY_CHUNK_EVENTS = 2000
KEPT_HEADER_CHARS = 4 * KB  # of a request, and of its answer
HISTORY_CHUNKS = 64  # searched for one page
HISTORY_HEADERS_WEIGHT = 4  # events that the headers of one waiting attempt count for
SERIES_CHUNKS = 32  # counted in one slice
SERIES_SLICES = 32  # counted for one request: some two million attempts
SERIES_SECONDS = (1, 86_400)  # the width of a bucket
SERIES_BUCKETS = (1, 1500)
HISTORY_MEMORY_EVENTS = 50_000
HISTORY_PAGE = (1, 1000)
HISTORY_PAGE_DEFAULT = 100
HISTORY_EVENTS_SHOWN = 10  # of one attempt
HISTORY_ASK_NS = 2 * SECOND  # then a node of a cluster is named as one that did not answer
EXPLAINED_ATTEMPTS = 1000
DESCRIBED_ATTEMPTS = 50  # of one page, whose events are read from the log
EXPLAINED_PLACES = 20  # at which one id was published
EXPLAIN_WAITS_NS = (400 * MILLISECOND, 400 * MILLISECOND)  # for attempts that dispatch is about to store
SEARCH_ENTRIES = 100_000  # of the logs, searched for one event id
SEARCH_SLICE = 256
COUNTED_LAGS = 100  # stretches of logs, whose events are counted for one sum
COUNTED_ENTRIES = 10_000  # of a log, whose events are counted at once

# Forwarding to another Event Grid. The target may mean a million bytes or 2^20 by a megabyte.
FORWARD_EVENTS = 5000
FORWARD_NAMESPACE_EVENTS = 1000
FORWARD_KILOBYTES = 976
PASSED_TOPICS = 16  # that an event may come by

# Azure services.
QUEUE_MESSAGE_BYTES = 64 * KB
BROKER_BATCH_EVENTS = 256
BROKER_BATCH_BYTES = 1 * MB
BROKER_KEY_CHARS = 128  # of a message key: message id, session and partition key
BROKER_CLOSE_WAIT_NS = 5 * SECOND
CONNECTION_KNOWN_NS = 5 * SECOND
EXAMINED_RESOURCES = 20  # of one connection
EXAMINATION_WAIT_NS = 15 * SECOND
RELAY_TOKEN_NS = 60 * MINUTE
VAULT_WAIT_NS = 60 * SECOND
BLOB_BLOCK_BYTES = 4 * MB  # of a backup; a request has one
BLOB_BLOCKS = 50_000  # that Azure Storage takes of one blob
BLOB_BLOCK_WAIT_NS = 120 * SECOND

# A cluster: requests that a standby forwards to the owner.
FORWARDS = 512
FORWARD_PUBLISH_NS = 10 * SECOND
FORWARD_READ_NS = 120 * SECOND  # a handshake takes its time
CLUSTER_VIEW_BYTES = 64 * KB  # of one report of a node to its roles: one datagram
CLUSTER_MEMBERS = 64  # shown
PARTITIONS = 64
NOTICE_PAGE_BYTES = 512 * KB  # of notices that cross to another partition in one call
SOURCE_RESERVED_NS = 60 * SECOND  # for a system topic that is being created

# Operation.
LANE_PAGE = (1, 1000)
LANE_PAGE_DEFAULT = 100
COUNT_PAGE = (1, 10_000)
COUNT_PAGE_DEFAULT = 1000
SEARCH_CHARS = 256
DIAGNOSTIC_LINES = 200  # a second
DIAGNOSED_EVENTS = 10  # of one request
TRACED_EVENTS = 10  # of one publish, and of one request
SPAN_QUEUE = 2048
SPAN_ATTRIBUTE_CHARS = 256
STATUS_BYTES = 128 * KB  # of one report of dispatch to intake: one datagram
STATUS_STOPPED = 100
STATUS_REASON_CHARS = 200
STATUS_TOPICS = 1000

# Dead letters.
DEAD_LETTER_GROUP_EVENTS = 1000
DAMAGED_PAGE = (1, 10)  # damaged records, which are read with their bytes
DAMAGED_PAGE_DEFAULT = 10
DAMAGED_SEARCHED = 100
NUMBER_DIGITS = 19  # a number in a name has fewer digits than this
DEAD_LETTER_GROUP_BYTES = 4 * MB
DEAD_LETTER_REST_NS = 5 * SECOND
DEAD_LETTER_DIRECTORIES = 10_000
DEAD_LETTER_WRITES = 16
NOTICES = 200  # of written blobs, published in one commit
LETTER_PAGE = (1, 1000)
LETTER_PAGE_DEFAULT = 100
LETTER_FILES = 100  # listed at once
LETTER_FILES_READ = 200  # by one request, however few of their letters are selected
LETTER_READS = 8  # files read ahead
LOG_POSITIONS = 1 << 62
REPLAY_READ_BYTES = 16 * MB  # of the log, in one request
REDRIVE_RATE = (1, 1_000_000)  # events a second
REDRIVE_TURN_S = 5  # the longest time of a paced request
LETTER_PROBLEMS = 10  # reported by one request

# Estate files and templates (ARM's limits, except for sizes of values).
ESTATE_BYTES = 4 * MB  # of a file, or of a deployment's body
PORTION_BYTES = 16 * MB  # of its resources that are sent to one partition, with their ids
ESTATE_NODES = 200_000  # values in a file, those behind aliases counted each time
ESTATE_DEPTH = 64
ESTATE_RESOURCES = 20_000
ESTATE_PATIENCE_NS = 10 * SECOND  # that a starting server waits for its file to be applied
ESTATE_PAUSE_NS = (5 * SECOND, 60 * SECOND)  # before failed resources are tried again
ESTATE_AT_ONCE = 32  # event subscriptions that are put at a time; each may wait for its endpoint's consent
TEMPLATE_PARAMETERS = 256
TEMPLATE_VARIABLES = 512
TEMPLATE_OUTPUTS = 256
TEMPLATE_RESOURCES = 800
TEMPLATE_COPIES = 800
TEMPLATE_STEPS = 500_000  # calls of functions in one template
TEMPLATE_REFERENCES = 256
EXPRESSION_CHARS = 24_576
EXPRESSION_DEPTH = 32
EXPRESSION_TEXT_CHARS = 256 * KB  # of one text that a function makes
EXPRESSION_ITEMS = 10_000  # of one array or object that a function makes
DEPLOYMENTS = 800  # of one resource group; the oldest go first
DEPLOYMENT_NAME_CHARS = (1, 64)
PUBLISH_KEY_CHARS = (16, 512)

# The portal.
PORTAL_SESSIONS = 1000
PORTAL_LOGIN_BYTES = 64 * KB

# The front of an Azurite.
FRONT_CONNECTIONS = 512
FRONT_HEAD_BYTES = 64 * KB
FRONT_HEADERS = 200
FRONT_PIECE_BYTES = 256 * KB
FRONT_SILENCE_NS = 120 * SECOND
FRONT_NOTE_BYTES = 32 * KB  # of one blob change under way; a name of 1,024 characters takes 18 KB at most
FRONT_BATCH_BYTES = 5 * MB  # Azure takes batches of 4 MB

assert EVENT_BYTES <= PUBLISH_BYTES <= SEGMENT_BYTES
assert PUBLISH_EVENTS <= SEGMENT_EVENTS
assert FORWARD_EVENTS <= PUBLISH_EVENTS
assert NOTICE_PAGE_BYTES <= PUBLISH_BYTES // 2
assert 2 * FORWARD_PUBLISH_NS < SOURCE_RESERVED_NS
assert FORWARD_KILOBYTES * KB <= 1_000_000 <= PUBLISH_BYTES
assert PUBLISH_BYTES <= SKIPPED_BYTES <= READING_BYTES
assert PUBLISH_BYTES <= WAITING_BYTES
assert SAS_TOKEN_CHARS + URL_CHARS < BEARER_TOKEN_CHARS + URL_CHARS < HEAD_BYTES
assert LIST_PAGE[0] <= LIST_PAGE_DEFAULT <= LIST_PAGE[1]
assert HISTORY_CHUNK_EVENTS <= HISTORY_WAITING_EVENTS
assert HISTORY_PAGE[0] <= HISTORY_PAGE_DEFAULT <= HISTORY_PAGE[1] <= EXPLAINED_ATTEMPTS
assert ATTEMPTS[0] <= ATTEMPTS_DEFAULT <= ATTEMPTS[1]
assert TTL_MINUTES[0] <= TTL_MINUTES_DEFAULT <= TTL_MINUTES[1]
assert BATCH_KILOBYTES[1] * KB <= WINDOW_BYTES <= OPEN_BYTES
assert WINDOW_START <= WINDOW_REQUESTS <= OPEN_EXCHANGES
assert FILTER_CONDITIONS <= FIELD_READER_KEYS
assert LOAD_RANGES <= LOOK_AHEAD_EVENTS
assert 6 * LOAD_RANGES <= SCATTERED_RANGES  # two headers that alternate make two batches, not three
assert ANSWER_WAIT_NS < LATE_ANSWER_WAIT_NS
assert RESPONSE_EXCERPT_BYTES <= RESPONSE_BODY_BYTES
assert LATE_ANSWER_WAIT_NS < CONNECTION_AGE_NS  # an address given to curl lives as long as a connection
assert (
    STATUS_STOPPED * (STATUS_REASON_CHARS * 4 + SUBSCRIPTION_NAME_CHARS[1] + 32) + STATUS_TOPICS * 20
    <= STATUS_BYTES - OPEN_EXCHANGES * 20
)
assert HELD_REFUSALS <= HELD_REFUSALS_IN_ALL
assert WAL_CHECKPOINT_BYTES <= WAL_KEPT_BYTES
assert TEMPLATE_RESOURCES <= ESTATE_RESOURCES
assert ESTATE_BYTES <= PORTION_BYTES <= READING_BYTES
