"""Everything of recapito that the golden tests name: the one file here that a rename of modules or classes touches.

A test sees to it that no other file of this directory imports recapito.
"""

# ruff: noqa: F401 - others of this directory take these names from here

import recapito as package
from recapito.cli import app as cli_app
from recapito.cli.toolkit import exit_codes
from recapito.cli.toolkit.defaults import DEFAULTS as cli_defaults
from recapito.cli.toolkit.defaults import FILE_VARIABLE as cli_file_variable
from recapito.cli.toolkit.lazy import LazyCommand
from recapito.clock import ClockOrigin, ManualClock
from recapito.composition.identity import AZURE_DATA, AZURE_MANAGEMENT, prepare_identity, scrape_token_file
from recapito.connections import keyring
from recapito.connections.encryption import SecretBox
from recapito.connections.keyring import Keyring
from recapito.contracts.damage import Damage
from recapito.contracts.history import HistoryBounds
from recapito.contracts.ledger import AttemptTotals, Burial, Drop, Settlement, SkippedDeadLetters
from recapito.contracts.log import EntryKind, NewSegment
from recapito.contracts.registry import TAKEN, TAKEN_KIND, Document
from recapito.domain.access.roles import Operation, Plane, Role
from recapito.domain.connections.connection import (
    AccountKey,
    AzureService,
    Connection,
    DefaultCredential,
    FunctionKey,
    PolicyKey,
    SharedAccess,
    TopicKey,
    TopicToken,
)
from recapito.domain.dead_letter import record
from recapito.domain.dead_letter.blob_notice import BlobNotice, blob_created, decode_notice, encode_notice
from recapito.domain.dead_letter.parser import read_dead_letters, restore
from recapito.domain.delivery.cursor import Cursor
from recapito.domain.delivery.delivery import Delivery, DeliveryId, Parked
from recapito.domain.delivery.hold import Hold
from recapito.domain.delivery.kept_headers import HeaderText
from recapito.domain.delivery.outcome import Outcome, Result
from recapito.domain.delivery.vocabulary import DispositionKind, NonRequestOutcome, Rule
from recapito.domain.events import cloud_event, custom_event, event_grid, segment
from recapito.domain.events.input_mapping import InputMapping, MappedField
from recapito.domain.events.schema import DeliverySchema, InputSchema
from recapito.domain.events.segment import Columns as SegmentColumns
from recapito.domain.events.segment import ForwardedColumns, Publish, Segment, StampedEvent
from recapito.domain.filters.filter import Condition, Filter, Operator
from recapito.domain.handshake.handshake import ConsentTarget, read_token
from recapito.domain.handshake.handshake import _token as write_token
from recapito.domain.histogram import SECONDS, SIZES, Histogram
from recapito.domain.history.attempt import FAILED as failed_outcome
from recapito.domain.history.attempt import Attempt, AttemptQuery, EventDisposition, LaneLabel
from recapito.domain.history.chunk import Chunk, Unpacked
from recapito.domain.history.chunk import _Columns as ChunkColumns
from recapito.domain.history.chunk import _CountedColumns as CountedChunkColumns
from recapito.domain.history.chunk import _HeadedColumns as HeadedChunkColumns
from recapito.domain.history.chunk import pack as pack_chunk
from recapito.domain.instant import DAY, HOUR, MINUTE, SECOND
from recapito.domain.observability.diagnostic import delivery_failure, publish_failure
from recapito.domain.profiles.profile import EndpointKind
from recapito.domain.profiles.profile import known as profile_names
from recapito.domain.resources.delivery_options import DeliveryOptions
from recapito.domain.resources.destination import (
    AzureFunction,
    EventGrid,
    EventHub,
    HybridConnection,
    ServiceBusQueue,
    ServiceBusTopic,
    StorageQueue,
    WebHook,
)
from recapito.domain.resources.destination import _Destination as DestinationBase
from recapito.domain.resources.subscription import (
    Batching,
    DeadLetterBlobs,
    DeadLetterDirectory,
    DynamicAttribute,
    FilterSince,
    Handshake,
    RetryPolicy,
    StaticAttribute,
    Subscription,
)
from recapito.domain.resources.topic import Domain, Source, Topic, TopicKind
from recapito.identity import certificate
from recapito.identity.server_identity import Development
from recapito.identity.signer import Signer
from recapito.intake.dead_letters import search
from recapito.intake.dead_letters.search import Name, Redriven, mark_key, parse_name
from recapito.intake.maintenance import damage_report
from recapito.intake.resources import domain_topics, groups, storage_accounts
from recapito.observability.status import BusyLane, Gauge, Status
from recapito.observability.status import _decode as decode_status
from recapito.observability.status import to_bytes as encode_status
from recapito.portal.config import PortalConfig
from recapito.portal.session import COOKIE as portal_cookie
from recapito.process.role_config import RoleConfig
from recapito.settings.settings import CONNECTION_KEY, ENVIRONMENT_PREFIX, Settings
from recapito.settings.settings import load as load_settings
from recapito.stores.replicated.marker import Seen as SeenStream
from recapito.stores.replicated.message import CommitContent, CommitHead, pack_rows, unpack_rows
from recapito.stores.replicated.message import Kind as MessageKind
from recapito.stores.replicated.message import pack as pack_message
from recapito.stores.replicated.message import unpack as unpack_message
from recapito.stores.replicated.rows import Digest as StreamDigest
from recapito.stores.sqlite import SqliteHistory, SqliteLedger, SqliteLog
from recapito.stores.sqlite.files import damage, lock, volume
from recapito.stores.sqlite.files.connection import DISPATCH, HISTORY, LOG
from recapito.stores.sqlite.files.damage import DamageSign
from recapito.stores.sqlite.sql.rows import DeliveryRecord as ParkedRecord
from recapito.stores.sqlite.sql.rows import (
    ForwardedRecord,
    burial_row,
    checksum,
    is_sound,
    lane_checksum,
    parked_row,
    read_burial,
    read_parked,
    sum_document,
    sum_subscription,
    sum_topic,
)
from recapito.stores.sqlite.sql.rows import text as row_text
from recapito.testing.client import LocalClient

JOURNAL = "journal"  # a call of something whose name ends with this is a line of the journal
ROLE_COMMAND = ("-m", "recapito", "role", "alone")  # how a test runs both roles of a server, ordered on standard input
