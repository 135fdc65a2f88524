-- What a lane asked of its endpoint: requests answered or given up, how long they took, and attempts that failed.

ALTER TABLE lane ADD COLUMN answers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN took_ns INTEGER NOT NULL DEFAULT 0;

CREATE TABLE failed (
    lane   INTEGER NOT NULL,
    result TEXT    NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (lane, result)
) STRICT, WITHOUT ROWID;

DROP VIEW lane_state;

CREATE VIEW lane_state AS
SELECT
    id, topic, log_id, version, cursor, hold, ended,
    matched, unmatched, delivered, dead_lettered, parked, buried,
    CASE WHEN dropped THEN (SELECT json_group_object(reason, events) FROM dropped WHERE lane = lane.id) END AS dropped,
    (SELECT min(due_at) FROM parked WHERE lane = lane.id) AS next_due_at,
    answers, took_ns,
    (SELECT json_group_object(result, events) FROM failed WHERE lane = lane.id) AS failed
FROM lane;
