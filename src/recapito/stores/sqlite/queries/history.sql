-- Chunks of attempts. What a page looks for is held against the texts of a chunk, so that most are never unpacked.

-- name: insert
INSERT INTO chunk (first, attempts, first_at, last_at, size, outcomes, labels, ids, packed)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: omit
UPDATE omitted SET attempts = attempts + ?

-- name: bounds
SELECT coalesce(sum(size), 0), coalesce(max(first + attempts - 1), 0) FROM chunk

-- name: extent
SELECT min(first_at), coalesce(sum(attempts), 0), (SELECT attempts FROM omitted) FROM chunk

-- name: oldest
SELECT first, size, last_at FROM chunk ORDER BY first LIMIT ?

-- name: remove
DELETE FROM chunk WHERE first <= ?

-- name: newest_first
SELECT first, attempts, ids, packed FROM chunk
WHERE first < :before
    AND (:since IS NULL OR last_at >= :since) AND (:until IS NULL OR first_at <= :until)
    AND (:outcome IS NULL OR instr(outcomes, :outcome))
    AND (:lane IS NULL OR instr(labels, :lane)) AND (:topic IS NULL OR instr(labels, :topic))
    AND (:subscription IS NULL OR instr(labels, :subscription))
    AND (:event IS NULL OR instr(ids, :event)) AND (:search IS NULL OR instr(ids, :search))
ORDER BY first DESC

-- name: oldest_first
SELECT first, attempts, ids, packed FROM chunk
WHERE first >= coalesce((SELECT max(first) FROM chunk WHERE first <= :after), 0) AND first + attempts - 1 > :after
    AND (:since IS NULL OR last_at >= :since) AND (:until IS NULL OR first_at <= :until)
    AND (:outcome IS NULL OR instr(outcomes, :outcome))
    AND (:lane IS NULL OR instr(labels, :lane)) AND (:topic IS NULL OR instr(labels, :topic))
    AND (:subscription IS NULL OR instr(labels, :subscription))
    AND (:event IS NULL OR instr(ids, :event)) AND (:search IS NULL OR instr(ids, :search))
ORDER BY first
