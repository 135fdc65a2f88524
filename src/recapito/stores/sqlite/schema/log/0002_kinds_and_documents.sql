-- Topics are of several kinds now: the kind begins their keys. Documents are all resources that lanes need not know.

UPDATE topic SET key = 'topics/' || key WHERE key IS NOT NULL;

CREATE TABLE document (
    kind    TEXT NOT NULL,
    key     TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
