-- log.db
-- application_id = 1382247527
-- user_version = 3
-- page_size = 16384
-- encoding = UTF-8
-- journal_mode = wal
-- auto_vacuum = 0

-- index sqlite_autoindex_entry_1
-- made by SQLite

-- index sqlite_autoindex_subscription_1
-- made by SQLite

-- index sqlite_autoindex_topic_1
-- made by SQLite

-- index subscription_by_topic
CREATE INDEX subscription_by_topic ON subscription (topic)

-- index topic_by_growth
CREATE INDEX topic_by_growth ON topic (grown_in)

-- table change
CREATE TABLE change (
    mark         INTEGER NOT NULL,
    topic        INTEGER NOT NULL,
    subscription INTEGER NOT NULL,
    PRIMARY KEY (mark, topic, subscription)
) STRICT, WITHOUT ROWID

-- table document
CREATE TABLE document (
    kind    TEXT NOT NULL,
    key     TEXT NOT NULL,
    content BLOB NOT NULL, checksum INTEGER,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID

-- table entry
CREATE TABLE entry (
    topic    INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind     INTEGER NOT NULL,
    events   INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    columns  BLOB    NOT NULL,
    body     BLOB    NOT NULL,
    UNIQUE (topic, position)
) STRICT

-- table gone
CREATE TABLE gone (
    topic INTEGER PRIMARY KEY
) STRICT

-- table log
CREATE TABLE log (
    id               TEXT    NOT NULL,  -- random; cursors carry it
    topic_ids        INTEGER NOT NULL,  -- the last id that was given to a topic
    subscription_ids INTEGER NOT NULL
) STRICT

-- table subscription
CREATE TABLE subscription (
    id    INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL REFERENCES topic (id),
    key   TEXT,
    doc   TEXT    NOT NULL, checksum INTEGER,
    UNIQUE (topic, key)
) STRICT

-- table topic
CREATE TABLE topic (
    id       INTEGER PRIMARY KEY,
    key      TEXT    UNIQUE,            -- the name in lower case
    "end"    INTEGER NOT NULL,          -- its last position: dense, from 1, never used twice
    grown_in INTEGER NOT NULL,          -- the mark of the commit that made that position
    doc      TEXT    NOT NULL
, checksum INTEGER) STRICT

-- dispatch.db
-- application_id = 1382245488
-- user_version = 8
-- page_size = 4096
-- encoding = UTF-8
-- journal_mode = wal
-- auto_vacuum = 0

-- index burial_by_container
CREATE INDEX burial_by_container ON burial (lane, container, write_at, position, "offset") WHERE path IS NULL

-- index burial_by_path
CREATE INDEX burial_by_path ON burial (lane, path) WHERE path IS NOT NULL

-- index burial_by_time
CREATE INDEX burial_by_time ON burial (lane, write_at, position, "offset")

-- index damaged_entry
CREATE UNIQUE INDEX damaged_entry ON damaged (topic, position) WHERE "table" = 'entry'

-- index damaged_notice
CREATE UNIQUE INDEX damaged_notice ON damaged (position, content) WHERE "table" = 'notice'

-- index lane_with_burials
CREATE INDEX lane_with_burials ON lane (id) WHERE buried > 0

-- index parked_by_due
CREATE INDEX parked_by_due ON parked (lane, due_at, position, "offset")

-- index sqlite_autoindex_burial_1
-- made by SQLite

-- index sqlite_autoindex_parked_1
-- made by SQLite

-- table burial
CREATE TABLE burial (
    lane      INTEGER NOT NULL,
    position  INTEGER NOT NULL,
    "offset"  INTEGER NOT NULL,
    write_at  INTEGER NOT NULL,
    container TEXT    NOT NULL,
    path      TEXT,                     -- of its group, once that is named
    checksum  INTEGER NOT NULL,
    record    BLOB    NOT NULL,
    UNIQUE (lane, position, "offset")
) STRICT

-- table burial_group
CREATE TABLE burial_group (
    lane           INTEGER NOT NULL,
    path           TEXT    NOT NULL,
    container      TEXT    NOT NULL,
    first_tried_at INTEGER NOT NULL,
    PRIMARY KEY (lane, path)
) STRICT, WITHOUT ROWID

-- table damaged
CREATE TABLE damaged (
    number   INTEGER PRIMARY KEY,
    "table"  TEXT    NOT NULL,
    topic    INTEGER NOT NULL,
    lane     INTEGER NOT NULL,
    position INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    events   INTEGER NOT NULL,
    content  BLOB    NOT NULL,
    columns  BLOB    NOT NULL
) STRICT

-- table dead_lettered
CREATE TABLE dead_lettered (
    lane   INTEGER NOT NULL,
    reason TEXT    NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (lane, reason)
) STRICT, WITHOUT ROWID

-- table dropped
CREATE TABLE dropped (
    lane   INTEGER NOT NULL,
    reason TEXT    NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (lane, reason)
) STRICT, WITHOUT ROWID

-- table failed
CREATE TABLE failed (
    lane   INTEGER NOT NULL,
    result TEXT    NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (lane, result)
) STRICT, WITHOUT ROWID

-- table lane
CREATE TABLE lane (
    id            INTEGER PRIMARY KEY,  -- the subscription's
    topic         INTEGER NOT NULL,
    log_id        TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    cursor        TEXT    NOT NULL,
    hold          TEXT    NOT NULL,
    ended         INTEGER NOT NULL,
    matched       INTEGER NOT NULL DEFAULT 0,
    unmatched     INTEGER NOT NULL DEFAULT 0,
    delivered     INTEGER NOT NULL DEFAULT 0,
    dead_lettered INTEGER NOT NULL DEFAULT 0,
    dropped       INTEGER NOT NULL DEFAULT 0,
    parked        INTEGER NOT NULL DEFAULT 0,
    buried        INTEGER NOT NULL DEFAULT 0, answers INTEGER NOT NULL DEFAULT 0, took_ns INTEGER NOT NULL DEFAULT 0, evaluated INTEGER NOT NULL DEFAULT 0, checksum INTEGER,
    CONSTRAINT books CHECK (matched = delivered + dead_lettered + dropped + parked + buried)
) STRICT

-- table notice
CREATE TABLE notice (
    number  INTEGER PRIMARY KEY,        -- greater than any that intake has taken
    content BLOB    NOT NULL
, checksum INTEGER) STRICT

-- table parked
CREATE TABLE parked (
    lane     INTEGER NOT NULL,
    position INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    record   BLOB    NOT NULL,          -- the delivery: its history and its event
    UNIQUE (lane, position, "offset")
) STRICT

-- view lane_state
CREATE VIEW lane_state AS
SELECT
    id, topic, log_id, version, cursor, hold, ended,
    matched, unmatched, delivered, dead_lettered, parked, buried, evaluated,
    CASE WHEN dropped THEN (SELECT json_group_object(reason, events) FROM dropped WHERE lane = lane.id) END AS dropped,
    CASE WHEN dead_lettered THEN (
        SELECT json_group_object(reason, events) FROM dead_lettered WHERE lane = lane.id
    ) END AS reasons,
    (SELECT min(due_at) FROM parked WHERE lane = lane.id) AS next_due_at,
    answers, took_ns,
    (SELECT json_group_object(result, events) FROM failed WHERE lane = lane.id) AS failed,
    dropped AS dropped_events, checksum
FROM lane

-- history.db
-- application_id = 1382246515
-- user_version = 1
-- page_size = 16384
-- encoding = UTF-8
-- journal_mode = wal
-- auto_vacuum = 0

-- table chunk
CREATE TABLE chunk (
    first    INTEGER PRIMARY KEY,       -- the mark of its first attempt
    attempts INTEGER NOT NULL,
    first_at INTEGER NOT NULL,          -- the earliest and the latest instant at which one was sent
    last_at  INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    outcomes TEXT    NOT NULL,          -- one a line, and Failed if one of them failed
    labels   TEXT    NOT NULL,          -- one a line: lane/topic/subscription
    ids      BLOB    NOT NULL,          -- of all events, between zero bytes
    packed   BLOB    NOT NULL
) STRICT

-- table omitted
CREATE TABLE omitted (
    attempts INTEGER NOT NULL
) STRICT
