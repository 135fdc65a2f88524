-- A notice has a checksum over its number and its content. One that was kept before has none, and is believed.

ALTER TABLE notice ADD COLUMN checksum INTEGER;

-- Every start meets a damaged notice again.
CREATE UNIQUE INDEX damaged_notice ON damaged (position, content) WHERE "table" = 'notice';
