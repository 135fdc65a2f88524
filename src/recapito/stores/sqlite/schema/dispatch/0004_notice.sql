-- Files that are in their vault, of which somebody is to hear: until intake has taken them over.

CREATE TABLE notice (
    number  INTEGER PRIMARY KEY,        -- greater than any that intake has taken
    content BLOB    NOT NULL
) STRICT;
