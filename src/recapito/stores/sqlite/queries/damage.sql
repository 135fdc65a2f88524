-- Rows whose checksum is wrong are taken out of the way, and kept.

-- name: keep_parked
INSERT INTO damaged ("table", topic, lane, position, "offset", events, content, columns)
SELECT 'parked', coalesce((SELECT topic FROM lane WHERE id = parked.lane), 0), lane, position, "offset", 1, record, x''
FROM parked
WHERE lane = ? AND (position, "offset") IN (SELECT value ->> 0, value ->> 1 FROM jsonb_each(?))

-- name: remove_parked
DELETE FROM parked
WHERE lane = ? AND (position, "offset") IN (SELECT value ->> 0, value ->> 1 FROM jsonb_each(?))

-- name: keep_burials
INSERT INTO damaged ("table", topic, lane, position, "offset", events, content, columns)
SELECT 'burial', coalesce((SELECT topic FROM lane WHERE id = burial.lane), 0), lane, position, "offset", 1, record, x''
FROM burial
WHERE lane = ? AND (position, "offset") IN (SELECT value ->> 0, value ->> 1 FROM jsonb_each(?))

-- name: remove_burials
DELETE FROM burial
WHERE lane = ? AND (position, "offset") IN (SELECT value ->> 0, value ->> 1 FROM jsonb_each(?))

-- name: remove_empty_groups
DELETE FROM burial_group
WHERE lane = ?1 AND NOT EXISTS (SELECT 1 FROM burial WHERE lane = ?1 AND path = burial_group.path)

-- name: count
-- Books that are damaged themselves are not changed: they begin anew with what waits then.
UPDATE lane SET dropped = dropped + ?2 + ?3, parked = parked - ?2, buried = buried - ?3
WHERE id = ?1 AND matched = delivered + dead_lettered + dropped + parked + buried

-- name: drop
INSERT INTO dropped (lane, reason, events) VALUES (?, ?, ?)
ON CONFLICT (lane, reason) DO UPDATE SET events = events + excluded.events

-- name: keep_notice
INSERT INTO damaged ("table", topic, lane, position, "offset", events, content, columns)
VALUES ('notice', 0, 0, ?, 0, 1, ?, x'')
ON CONFLICT DO NOTHING

-- name: keep_entry
INSERT INTO damaged ("table", topic, lane, position, "offset", events, content, columns)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: damaged
SELECT "table", topic, lane, position, "offset", events, content, columns, number FROM damaged
WHERE number > ? ORDER BY number LIMIT ?

-- name: counts
SELECT "table" FROM damaged WHERE number > ?
