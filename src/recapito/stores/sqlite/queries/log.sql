-- The log: entries of topics, and what changed since a mark.

-- name: id
SELECT id FROM log

-- name: mark
SELECT max(
    coalesce((SELECT max(grown_in) FROM topic), 0),
    coalesce((SELECT max(mark) FROM change), 0)
)

-- name: living_ends
SELECT id, "end", (SELECT max(position) FROM entry WHERE topic = topic.id) AS last
FROM topic WHERE key IS NOT NULL AND id IN (SELECT value FROM json_each(?))

-- name: end
SELECT "end" FROM topic WHERE id = ?

-- name: grow
UPDATE topic SET "end" = grown.value ->> 1, grown_in = ?1
FROM json_each(?2) AS grown
WHERE topic.id = grown.value ->> 0

-- name: sizes
SELECT position, length(columns) + length(body) FROM entry WHERE topic = ? AND position >= ? ORDER BY position

-- name: entries
SELECT position, kind, events, checksum, columns, body FROM entry
WHERE topic = ? AND position BETWEEN ? AND ? ORDER BY position

-- name: rowid
SELECT rowid FROM entry WHERE topic = ? AND position = ?

-- name: row
SELECT topic, position, kind, events, checksum, columns, body FROM entry NOT INDEXED WHERE rowid = ?

-- name: root
SELECT rootpage FROM sqlite_schema WHERE name = 'entry'

-- name: events
SELECT events FROM entry WHERE topic = ? AND position = ?

-- name: search
SELECT position, instr(columns, ?) FROM entry WHERE topic = ? AND position < ? ORDER BY position DESC LIMIT ?

-- name: size
SELECT coalesce(sum(length(columns) + length(body)), 0) FROM entry WHERE topic = ? AND position >= ? AND position < ?

-- name: events_between
SELECT coalesce(sum(events), 0) FROM (
    SELECT events FROM entry WHERE topic = ? AND position >= ? AND position < ? ORDER BY position LIMIT ?
)

-- name: first
SELECT min(position) FROM entry WHERE topic = ?

-- name: grown_since
SELECT id, "end" FROM topic WHERE grown_in > ?

-- name: changed_since
SELECT topic, subscription FROM change WHERE mark > ?

-- name: all_topics
SELECT id FROM topic

-- name: all_subscriptions
SELECT id FROM subscription

-- name: change
INSERT INTO change (mark, topic, subscription)
SELECT ?1, ?2, value FROM json_each(?3)

-- name: trim
DELETE FROM entry WHERE rowid IN (
    SELECT rowid FROM entry WHERE topic = ? AND position < ? ORDER BY position LIMIT ?
)

-- name: gone
SELECT topic FROM gone ORDER BY topic LIMIT 1

-- name: swept
DELETE FROM gone WHERE topic = ?
