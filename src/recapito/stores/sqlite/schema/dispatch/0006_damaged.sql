-- Damaged rows of all tables are set aside in one way: with their place, the number of their events, and their bytes.

ALTER TABLE damaged RENAME TO damaged_before;

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
) STRICT;

-- Every lane and every start meets a damaged entry of the log again.
CREATE UNIQUE INDEX damaged_entry ON damaged (topic, position) WHERE "table" = 'entry';

INSERT INTO damaged ("table", topic, lane, position, "offset", events, content, columns)
SELECT 'parked', coalesce((SELECT topic FROM lane WHERE id = damaged_before.lane), 0), lane, position, "offset", 1, record, x''
FROM damaged_before;

DROP TABLE damaged_before;
