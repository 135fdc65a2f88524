-- Dead letters without a name, by where they go: a container out of reach does not hold up the lane's other ones.

CREATE INDEX burial_by_container ON burial (lane, container, write_at, position, "offset") WHERE path IS NULL;
