-- Records of the registry have a checksum; those of before get theirs when the file is opened.

ALTER TABLE topic ADD COLUMN checksum INTEGER;
ALTER TABLE subscription ADD COLUMN checksum INTEGER;
ALTER TABLE document ADD COLUMN checksum INTEGER;
