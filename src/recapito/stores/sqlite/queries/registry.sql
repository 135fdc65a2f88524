-- Topics and subscriptions, of which those that are deleted have no key; and documents.

-- name: next_topic_id
UPDATE log SET topic_ids = topic_ids + 1 RETURNING topic_ids

-- name: next_subscription_id
UPDATE log SET subscription_ids = subscription_ids + 1 RETURNING subscription_ids

-- name: topic
SELECT doc FROM topic WHERE key = ?

-- name: topic_by_id
SELECT doc FROM topic WHERE id = ? AND key IS NOT NULL

-- name: topics
SELECT doc FROM topic WHERE key > ? ORDER BY key LIMIT ?

-- name: topic_named
SELECT id FROM topic WHERE key = ?

-- name: insert_topic
INSERT INTO topic (id, key, "end", grown_in, doc) VALUES (?, ?, 0, 0, ?)

-- name: update_topic
UPDATE topic SET key = ?2, doc = ?3 WHERE id = ?1

-- name: mark_topic_deleted
UPDATE topic SET key = NULL WHERE id = ?

-- name: remove_topic_without_subscriptions
DELETE FROM topic
WHERE id = ?1 AND key IS NULL AND NOT EXISTS (SELECT 1 FROM subscription WHERE topic = ?1)

-- name: gone
INSERT INTO gone (topic) VALUES (?)

-- name: subscription
SELECT doc FROM subscription WHERE topic = ? AND key = ?

-- name: subscription_by_id
SELECT doc FROM subscription WHERE id = ?

-- name: subscriptions
SELECT doc FROM subscription WHERE id > ? ORDER BY id LIMIT ?

-- name: subscriptions_of
SELECT doc FROM subscription WHERE topic = ? AND id > ? ORDER BY id LIMIT ?

-- name: living_subscriptions_of
SELECT doc FROM subscription WHERE topic = ? AND key IS NOT NULL ORDER BY id

-- name: subscription_named
SELECT id FROM subscription WHERE topic = ? AND key = ?

-- name: put_subscription
INSERT INTO subscription (id, topic, key, doc) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET key = excluded.key, doc = excluded.doc

-- name: remove_subscription
DELETE FROM subscription WHERE id = ?

-- name: subscription_counts
SELECT topic, count(*) FROM subscription
WHERE key IS NOT NULL AND topic IN (SELECT value FROM json_each(?)) GROUP BY topic

-- name: subscriptions_between
SELECT doc FROM subscription WHERE topic = ? AND key > ? AND key < ? ORDER BY key LIMIT ?

-- name: document
SELECT content FROM document WHERE kind = ? AND key = ?

-- name: documents
SELECT key, content FROM document WHERE kind = ? AND key > ? ORDER BY key LIMIT ?

-- name: put_document
INSERT INTO document (kind, key, content) VALUES (?, ?, ?)
ON CONFLICT (kind, key) DO UPDATE SET content = excluded.content

-- name: delete_document
DELETE FROM document WHERE kind = ? AND key = ?
