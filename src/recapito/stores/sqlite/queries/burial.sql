-- Dead letters that wait.

-- name: bury
INSERT INTO burial (lane, position, "offset", write_at, container, checksum, record)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
    substr(?2, value ->> 6, value ->> 7)
FROM jsonb_each(?1) WHERE true
ON CONFLICT (lane, position, "offset") DO NOTHING
RETURNING lane

-- name: unbury
DELETE FROM burial WHERE rowid IN (
    SELECT burial.rowid FROM jsonb_each(?) AS gone
    CROSS JOIN burial
    ON lane = gone.value ->> 0 AND position = gone.value ->> 1 AND "offset" = gone.value ->> 2 AND burial.path IS NULL
)
RETURNING lane

-- name: next_at
SELECT min((SELECT min(write_at) FROM burial WHERE lane = lane.id)) FROM lane WHERE buried > 0

-- name: named_group
SELECT lane, container, path, first_tried_at FROM burial_group
WHERE container NOT IN (SELECT value FROM jsonb_each(?1))
AND NOT EXISTS (SELECT 1 FROM jsonb_each(?2) WHERE value ->> 0 = lane AND value ->> 1 = container)
ORDER BY first_tried_at, lane, path LIMIT 1

-- name: of_group
SELECT position, "offset", write_at, container, checksum, record FROM burial
WHERE lane = ? AND path = ? ORDER BY write_at, position, "offset"

-- name: misnamed
SELECT 1 FROM burial
WHERE path IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM burial_group WHERE lane = burial.lane AND path = burial.path)
LIMIT 1

-- name: unname
UPDATE burial SET path = NULL
WHERE path IS NOT NULL
AND NOT EXISTS (SELECT 1 FROM burial_group WHERE lane = burial.lane AND path = burial.path)

-- name: remove_empty_groups
DELETE FROM burial_group
WHERE NOT EXISTS (SELECT 1 FROM burial WHERE lane = burial_group.lane AND path = burial_group.path)

-- name: oldest_unnamed
-- The containers of a lane are found one after the other: a group by would read all that waits.
WITH RECURSIVE place (lane, container) AS (
    SELECT id, (SELECT min(container) FROM burial WHERE lane = lane.id AND path IS NULL)
    FROM lane WHERE buried > 0
    UNION ALL
    SELECT lane, (
        SELECT min(container) FROM burial
        WHERE lane = place.lane AND path IS NULL AND container > place.container
    )
    FROM place WHERE container IS NOT NULL
)
SELECT lane, container, (
    SELECT min(write_at) FROM burial WHERE lane = place.lane AND container = place.container AND path IS NULL
) AS oldest
FROM place
WHERE container NOT IN (SELECT value FROM jsonb_each(?1))
AND NOT EXISTS (SELECT 1 FROM jsonb_each(?2) WHERE value ->> 0 = lane AND value ->> 1 = container)
AND oldest <= ?3
ORDER BY oldest, lane, container LIMIT 1

-- name: unnamed
SELECT position, "offset", write_at, container, checksum, record FROM burial
WHERE lane = ? AND path IS NULL AND container = ? AND write_at <= ?
ORDER BY write_at, position, "offset" LIMIT ?

-- name: name
UPDATE burial SET path = ?2 WHERE rowid IN (
    SELECT burial.rowid FROM jsonb_each(?1) AS named
    CROSS JOIN burial
    ON lane = named.value ->> 0 AND position = named.value ->> 1 AND "offset" = named.value ->> 2 AND burial.path IS NULL
)

-- name: insert_group
INSERT INTO burial_group (lane, path, container, first_tried_at) VALUES (?, ?, ?, ?)
ON CONFLICT (lane, path) DO NOTHING

-- name: remove_burials
DELETE FROM burial WHERE lane = ? AND path = ?

-- name: remove_group
DELETE FROM burial_group WHERE lane = ? AND path = ?

-- name: count_written
UPDATE lane SET dead_lettered = dead_lettered + ?2, buried = buried - ?2
WHERE id = ?1 AND matched = delivered + dead_lettered + dropped + parked + buried

-- name: count_reasons
INSERT INTO dead_lettered (lane, reason, events)
SELECT ?1, key, value FROM json_each(?2) WHERE true
ON CONFLICT (lane, reason) DO UPDATE SET events = events + excluded.events

-- name: count_abandoned
UPDATE lane SET dropped = dropped + ?2, buried = buried - ?2
WHERE id = ?1 AND matched = delivered + dead_lettered + dropped + parked + buried

-- name: keep_notice
INSERT INTO notice (number, content, checksum) VALUES (?, ?, ?)

-- name: last_notice
SELECT max(number) FROM notice

-- name: forget_notices
DELETE FROM notice WHERE number <= ?

-- name: notices
SELECT number, content, checksum FROM notice WHERE number > ? ORDER BY number LIMIT ?

-- name: find
SELECT position, "offset", write_at, container, checksum, record, path FROM burial
WHERE lane = ? AND position = ? AND "offset" = ?
