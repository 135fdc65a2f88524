-- Why dead letters were given up, and how many events a lane's conditions looked at.

ALTER TABLE lane ADD COLUMN evaluated INTEGER NOT NULL DEFAULT 0;

-- lane.dead_lettered, by reason; those that were counted before this table was made are not in it.
CREATE TABLE dead_lettered (
    lane   INTEGER NOT NULL,
    reason TEXT    NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (lane, reason)
) STRICT, WITHOUT ROWID;

DROP VIEW lane_state;

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
    (SELECT json_group_object(result, events) FROM failed WHERE lane = lane.id) AS failed
FROM lane;
