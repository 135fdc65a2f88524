-- A lane's row has a checksum over what its settlements write. One that was not settled since has none yet.

ALTER TABLE lane ADD COLUMN checksum INTEGER;

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
    (SELECT json_group_object(result, events) FROM failed WHERE lane = lane.id) AS failed,
    dropped AS dropped_events, checksum
FROM lane;
