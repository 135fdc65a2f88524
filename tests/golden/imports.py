"""Everything of recapito that the golden tests name: the one file here that a rename of modules or classes touches.

A test sees to it that no other file of this directory imports recapito.
"""

# ruff: noqa: F401 - others of this directory take these names from here

import recapito as package
from recapito.access import AZURE_DATA, AZURE_MANAGEMENT, prepare_identity, scrape_token_file
from recapito.cli import app as cli_app
from recapito.cli import exit as exit_codes
from recapito.cli.defaults import DEFAULTS as cli_defaults
from recapito.cli.defaults import FILE_VARIABLE as cli_file_variable
from recapito.cli.lazy import LazyCommand
from recapito.clock import ManualClock, Origin
from recapito.domain import cloud_event, custom_event, deadletter, event, segment
from recapito.domain.access import Operation, Plane, Role
from recapito.domain.attempt import FAILED as failed_outcome
from recapito.domain.attempt import Attempt, Ending, Fate, Label, Selection, Then
from recapito.domain.chunk import Chunk, Unpacked
from recapito.domain.chunk import _Columns as ChunkColumns
from recapito.domain.chunk import pack as pack_chunk
from recapito.domain.connection import (
    AccountKey,
    Connection,
    DefaultCredential,
    FunctionKey,
    PolicyKey,
    Service,
    SharedAccess,
)
from recapito.domain.cursor import Cursor
from recapito.domain.delivery import Delivery, Identity, Parked, Rule
from recapito.domain.diagnostic import delivery_failure, publish_failure
from recapito.domain.filter import Condition, Filter, Operator
from recapito.domain.handshake import Place, read_token
from recapito.domain.handshake import _token as write_token
from recapito.domain.histogram import SECONDS, SIZES, Histogram
from recapito.domain.hold import Hold
from recapito.domain.instant import DAY, HOUR, MINUTE, SECOND
from recapito.domain.letter import read_letters, restore
from recapito.domain.notice import BlobNotice, blob_created, decode_notice, encode_notice
from recapito.domain.outcome import Outcome, Result
from recapito.domain.profile import EndpointKind
from recapito.domain.profile import names as profile_names
from recapito.domain.schema import DeliverySchema, InputMapping, InputSchema, MappedField
from recapito.domain.segment import Columns as SegmentColumns
from recapito.domain.segment import Publish, Segment, StampedEvent
from recapito.domain.subscription import (
    AzureFunction,
    Batching,
    DeadLetterBlobs,
    DeadLetterDirectory,
    DynamicAttribute,
    EventHub,
    FilterSince,
    Handshake,
    HybridConnection,
    RetryPolicy,
    ServiceBusQueue,
    ServiceBusTopic,
    StaticAttribute,
    StorageQueue,
    Subscription,
    WebHook,
)
from recapito.domain.subscription import _Azure as AzureBase
from recapito.domain.topic import Domain, Source, Topic, TopicKind
from recapito.history import Keep
from recapito.intake import accounts, damages, domain_topics, groups, letters
from recapito.intake.letters import Name, Redriven, mark_key, parse_name
from recapito.keys import certificate, keyring
from recapito.keys.identity import Development
from recapito.keys.keyring import Keyring
from recapito.keys.seal import Seal
from recapito.keys.signer import Signer
from recapito.portal.order import PortalOrder
from recapito.portal.session import COOKIE as portal_cookie
from recapito.role_order import RoleOrder
from recapito.settings import CONNECTION_KEY, ENVIRONMENT_PREFIX, Settings
from recapito.settings import load as load_settings
from recapito.status import BusyLane, Gauge, Status
from recapito.status import _decode as decode_status
from recapito.status import to_bytes as encode_status
from recapito.store import (
    Attempts,
    Burial,
    Damage,
    Document,
    Drop,
    EntryKind,
    NewSegment,
    Passed,
    Settlement,
)
from recapito.stores.sqlite import SqliteHistory, SqliteLedger, SqliteLog, ballast, lock, marker
from recapito.stores.sqlite.checksum import checksum, is_sound
from recapito.stores.sqlite.connection import DISPATCH, HISTORY, LOG
from recapito.stores.sqlite.marker import Sign
from recapito.stores.sqlite.record import sum_document, sum_subscription, sum_topic
from recapito.stores.sqlite.row import Record as ParkedRecord
from recapito.stores.sqlite.row import burial_row, lane_checksum, parked_row, read_burial, read_parked
from recapito.stores.sqlite.row import text as row_text
from recapito.system_topic import TAKEN, TAKEN_KIND
from recapito.testing.client import Client

JOURNAL = "journal"  # a call of something whose name ends with this is a line of the journal
ROLE_COMMAND = ("-m", "recapito", "role", "alone")  # how a test runs both roles of a server, ordered on standard input
