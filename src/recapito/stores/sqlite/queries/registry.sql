-- Topics and subscriptions, of which those that are deleted have no key; and documents.
-- Texts with a checksum are read as blobs: damaged ones need not be UTF-8.

-- name: begin_ids
UPDATE log SET topic_ids = max(topic_ids, ?1), subscription_ids = max(subscription_ids, ?1)

-- name: next_topic_id
UPDATE log SET topic_ids = topic_ids + 1 RETURNING topic_ids

-- name: next_subscription_id
UPDATE log SET subscription_ids = subscription_ids + 1 RETURNING subscription_ids

-- name: topic
SELECT id, CAST(doc AS BLOB), checksum FROM topic WHERE key = ?

-- name: topic_by_id
SELECT id, CAST(doc AS BLOB), checksum FROM topic WHERE id = ? AND key IS NOT NULL

-- name: topics
SELECT id, CAST(doc AS BLOB), checksum, key FROM topic WHERE key > ? ORDER BY key LIMIT ?

-- name: topic_named
SELECT id FROM topic WHERE key = ?

-- name: insert_topic
INSERT INTO topic (id, key, "end", grown_in, doc, checksum) VALUES (?, ?, 0, 0, ?, ?)

-- name: update_topic
UPDATE topic SET key = ?2, doc = ?3, checksum = ?4 WHERE id = ?1

-- name: mark_topic_deleted
UPDATE topic SET key = NULL WHERE id = ?

-- name: remove_topic_without_subscriptions
DELETE FROM topic
WHERE id = ?1 AND key IS NULL AND NOT EXISTS (SELECT 1 FROM subscription WHERE topic = ?1)

-- name: gone
INSERT INTO gone (topic) VALUES (?)

-- name: subscription
SELECT id, topic, CAST(doc AS BLOB), checksum FROM subscription WHERE topic = ? AND key = ?

-- name: subscription_by_id
SELECT id, topic, CAST(doc AS BLOB), checksum FROM subscription WHERE id = ?

-- name: subscriptions
SELECT id, topic, CAST(doc AS BLOB), checksum FROM subscription WHERE id > ? ORDER BY id LIMIT ?

-- name: subscriptions_of
SELECT id, topic, CAST(doc AS BLOB), checksum FROM subscription WHERE topic = ? AND id > ? ORDER BY id LIMIT ?

-- name: living_subscriptions_of
SELECT id, topic, CAST(doc AS BLOB), checksum FROM subscription WHERE topic = ? AND key IS NOT NULL ORDER BY id

-- name: subscription_named
SELECT id FROM subscription WHERE topic = ? AND key = ?

-- name: put_subscription
INSERT INTO subscription (id, topic, key, doc, checksum) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET key = excluded.key, doc = excluded.doc, checksum = excluded.checksum

-- name: remove_subscription
DELETE FROM subscription WHERE id = ?

-- name: subscription_counts
SELECT topic, count(*) FROM subscription
WHERE key IS NOT NULL AND topic IN (SELECT value FROM json_each(?)) GROUP BY topic

-- name: subscriptions_between
SELECT id, topic, CAST(doc AS BLOB), checksum, key FROM subscription WHERE topic = ? AND key > ? AND key < ? ORDER BY key LIMIT ?

-- name: document
SELECT kind, key, content, checksum FROM document WHERE kind = ? AND key = ?

-- name: documents
SELECT kind, key, content, checksum FROM document WHERE kind = ? AND key > ? ORDER BY key LIMIT ?

-- name: put_document
INSERT INTO document (kind, key, content, checksum) VALUES (?, ?, ?, ?)
ON CONFLICT (kind, key) DO UPDATE SET content = excluded.content, checksum = excluded.checksum

-- name: delete_document
DELETE FROM document WHERE kind = ? AND key = ?

-- name: topics_without_checksum
SELECT id, doc FROM topic WHERE checksum IS NULL

-- name: subscriptions_without_checksum
SELECT id, topic, doc FROM subscription WHERE checksum IS NULL

-- name: documents_without_checksum
SELECT kind, key, content FROM document WHERE checksum IS NULL

-- name: sum_up_topic
UPDATE topic SET checksum = ? WHERE id = ?

-- name: sum_up_subscription
UPDATE subscription SET checksum = ? WHERE id = ?

-- name: sum_up_document
UPDATE document SET checksum = ? WHERE kind = ? AND key = ?
