-- Lanes, parked deliveries and dead letters that wait. Written by dispatch alone.

-- The law of conservation is a constraint: no commit can break it.
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
    buried        INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT books CHECK (matched = delivered + dead_lettered + dropped + parked + buried)
) STRICT;

CREATE INDEX lane_with_burials ON lane (id) WHERE buried > 0;

-- lane.dropped, by reason.
CREATE TABLE dropped (
    lane   INTEGER NOT NULL,
    reason TEXT    NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (lane, reason)
) STRICT, WITHOUT ROWID;

CREATE TABLE parked (
    lane     INTEGER NOT NULL,
    position INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    due_at   INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    record   BLOB    NOT NULL,          -- the delivery: its history and its event
    UNIQUE (lane, position, "offset")
) STRICT;

CREATE INDEX parked_by_due ON parked (lane, due_at, position, "offset");

CREATE VIEW lane_state AS
SELECT
    id, topic, log_id, version, cursor, hold, ended,
    matched, unmatched, delivered, dead_lettered, parked, buried,
    CASE WHEN dropped THEN (SELECT json_group_object(reason, events) FROM dropped WHERE lane = lane.id) END AS dropped,
    (SELECT min(due_at) FROM parked WHERE lane = lane.id) AS next_due_at
FROM lane;

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
) STRICT;

CREATE INDEX burial_by_time ON burial (lane, write_at, position, "offset");
CREATE INDEX burial_by_path ON burial (lane, path) WHERE path IS NOT NULL;

-- Groups of dead letters that have their path: being written, or to be written again.
CREATE TABLE burial_group (
    lane           INTEGER NOT NULL,
    path           TEXT    NOT NULL,
    container      TEXT    NOT NULL,
    first_tried_at INTEGER NOT NULL,
    PRIMARY KEY (lane, path)
) STRICT, WITHOUT ROWID;

-- Rows whose checksum was wrong when they were read: counted as dropped, kept for whoever wants to look.
CREATE TABLE damaged (
    lane     INTEGER NOT NULL,
    position INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    record   BLOB    NOT NULL
) STRICT;
