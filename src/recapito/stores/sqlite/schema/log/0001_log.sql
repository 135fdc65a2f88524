-- The topics' logs and the registry. Written by intake alone.

CREATE TABLE log (
    id               TEXT    NOT NULL,  -- random; cursors carry it
    topic_ids        INTEGER NOT NULL,  -- the last id that was given to a topic
    subscription_ids INTEGER NOT NULL
) STRICT;

INSERT INTO log VALUES (lower(hex(randomblob(16))), 0, 0);

-- A deleted topic has no key and stays until its last subscription is forgotten.
CREATE TABLE topic (
    id       INTEGER PRIMARY KEY,
    key      TEXT    UNIQUE,            -- the name in lower case
    "end"    INTEGER NOT NULL,          -- its last position: dense, from 1, never used twice
    grown_in INTEGER NOT NULL,          -- the mark of the commit that made that position
    doc      TEXT    NOT NULL
) STRICT;

CREATE INDEX topic_by_growth ON topic (grown_in);

-- A deleted subscription has no key and stays until it is forgotten.
CREATE TABLE subscription (
    id    INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL REFERENCES topic (id),
    key   TEXT,
    doc   TEXT    NOT NULL,
    UNIQUE (topic, key)
) STRICT;

CREATE INDEX subscription_by_topic ON subscription (topic);

-- What each commit changed. Subscription 0 is the topic itself.
CREATE TABLE change (
    mark         INTEGER NOT NULL,
    topic        INTEGER NOT NULL,
    subscription INTEGER NOT NULL,
    PRIMARY KEY (mark, topic, subscription)
) STRICT, WITHOUT ROWID;

-- One row per segment or change mark. The blobs come last: what is asked about the log is answered without them.
CREATE TABLE entry (
    topic    INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind     INTEGER NOT NULL,
    events   INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    columns  BLOB    NOT NULL,
    body     BLOB    NOT NULL,
    UNIQUE (topic, position)
) STRICT;

-- Topics that are gone, whose entries are still to be swept up, slice by slice.
CREATE TABLE gone (
    topic INTEGER PRIMARY KEY
) STRICT;
