-- What was attempted in the last hours. Written by dispatch alone; it may be lost without harm.

-- One row per chunk of attempts. Marks are given to attempts one after the other, and never twice.
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
) STRICT;

-- How many attempts were recorded and not kept.
CREATE TABLE omitted (
    attempts INTEGER NOT NULL
) STRICT;

INSERT INTO omitted VALUES (0);
