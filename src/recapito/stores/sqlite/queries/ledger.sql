-- Lanes and parked deliveries. Texts of a lane are read as blobs: damaged ones need not be UTF-8.

-- name: lane_states
SELECT
    id, topic, CAST(log_id AS BLOB), version, CAST(cursor AS BLOB), CAST(hold AS BLOB), ended,
    matched, unmatched, delivered, dead_lettered, parked, buried, evaluated,
    CAST(dropped AS BLOB), CAST(reasons AS BLOB), next_due_at, answers, took_ns, CAST(failed AS BLOB),
    dropped_events, checksum
FROM lane_state

-- name: lanes
{lane_states} ORDER BY id

-- name: lane
{lane_states} WHERE id = ?

-- name: some_lanes
{lane_states} WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id

-- name: lanes_after
{lane_states} WHERE id > ? ORDER BY id LIMIT ?

-- name: troubled_lanes
{lane_states} WHERE id > ? AND (parked > 0 OR hold <> ?) ORDER BY id LIMIT ?

-- name: lane_versions
SELECT count(*), total(version), ifnull(max(id), 0) FROM lane

-- name: open_lane
INSERT INTO lane (id, topic, log_id, version, cursor, hold, ended, checksum) VALUES (?, ?, ?, 1, ?, ?, 0, ?)
ON CONFLICT (id) DO NOTHING

-- name: keep_lane
INSERT INTO damaged ("table", topic, lane, position, "offset", events, content, columns)
SELECT
    'lane', topic, id, version, 0, 0,
    CAST(
        concat_ws(
            ',', quote(log_id), quote(cursor), quote(hold), ended, matched, unmatched, delivered, dead_lettered, dropped,
            parked, buried
        ) AS BLOB
    ),
    x''
FROM lane WHERE id = ?

-- name: renew_parked
DELETE FROM parked WHERE lane = ? AND position >= ?

-- name: renew_burials
DELETE FROM burial WHERE lane = ? AND position >= ?

-- name: renew_groups
DELETE FROM burial_group
WHERE lane = ?1 AND NOT EXISTS (SELECT 1 FROM burial WHERE lane = ?1 AND path = burial_group.path)

-- name: remove_lane
DELETE FROM lane WHERE id = ?

-- name: renew_books
UPDATE lane SET
    matched = (SELECT count(*) FROM parked WHERE lane = ?1) + (SELECT count(*) FROM burial WHERE lane = ?1),
    parked = (SELECT count(*) FROM parked WHERE lane = ?1),
    buried = (SELECT count(*) FROM burial WHERE lane = ?1)
WHERE id = ?1

-- name: waits
SELECT EXISTS (SELECT 1 FROM parked WHERE lane = ?1) OR EXISTS (SELECT 1 FROM burial WHERE lane = ?1)

-- name: close_dropped
DELETE FROM dropped WHERE lane = ?

-- name: close_dead_lettered
DELETE FROM dead_lettered WHERE lane = ?

-- name: close_failed
DELETE FROM failed WHERE lane = ?

-- name: settle
UPDATE lane SET
    version = version + 1,
    cursor = done.value -> 2,
    hold = done.value -> 3,
    ended = max(ended, done.value ->> 4),
    checksum = done.value ->> 5,
    dropped = dropped + (done.value ->> 7),
    parked = parked + (done.value ->> 8),
    buried = buried + (done.value ->> 9),
    answers = answers + (done.value ->> 10),
    took_ns = took_ns + (done.value ->> 11),
    matched = matched + (done.value ->> 12),
    unmatched = unmatched + (done.value ->> 13),
    delivered = delivered + (done.value ->> 6) + (done.value ->> 14),
    evaluated = evaluated + (done.value ->> 15)
FROM jsonb_each(?) AS done
WHERE lane.id = done.value ->> 0 AND lane.version = done.value ->> 1

-- name: drop
INSERT INTO dropped (lane, reason, events)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM jsonb_each(?) WHERE true
ON CONFLICT (lane, reason) DO UPDATE SET events = events + excluded.events

-- name: fail
INSERT INTO failed (lane, result, events)
SELECT value ->> 0, value ->> 1, value ->> 2 FROM jsonb_each(?) WHERE true
ON CONFLICT (lane, result) DO UPDATE SET events = events + excluded.events

-- name: unpark
DELETE FROM parked WHERE rowid IN (
    SELECT parked.rowid FROM jsonb_each(?) AS gone
    CROSS JOIN parked
    ON lane = gone.value ->> 0 AND position = gone.value ->> 1 AND "offset" = gone.value ->> 2
)
RETURNING lane

-- name: park
INSERT INTO parked (lane, position, "offset", due_at, checksum, record)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, substr(?2, value ->> 5, value ->> 6)
FROM jsonb_each(?1)

-- name: due
SELECT position, "offset", due_at, checksum, record FROM parked
WHERE lane = ? AND due_at <= ? ORDER BY due_at, position, "offset" LIMIT ?

-- name: next_due
SELECT due_at FROM parked WHERE lane = ? ORDER BY due_at, position, "offset" LIMIT 1 OFFSET ?

-- name: parked
SELECT position, "offset", due_at, checksum, record FROM parked
WHERE lane = ? AND (due_at, position, "offset") > (?, ?, ?) ORDER BY due_at, position, "offset" LIMIT ?

-- name: find
SELECT position, "offset", due_at, checksum, record FROM parked WHERE lane = ? AND position = ? AND "offset" = ?
