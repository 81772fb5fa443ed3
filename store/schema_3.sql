-- pawl.db, version 3: conversations, which are names for a place in the tree.
--
-- SPDX-License-Identifier: Apache-2.0

ALTER TABLE response ADD COLUMN conversation TEXT; -- in which it was made; NULL: in none

CREATE INDEX response_by_conversation ON response (conversation) WHERE conversation IS NOT NULL;

CREATE TABLE conversation (
    id         TEXT NOT NULL PRIMARY KEY,
    revision   INTEGER NOT NULL,              -- grows with every change
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    tenant     TEXT NOT NULL,                 -- as in response
    title      TEXT NOT NULL,                 -- '': it has none
    head       TEXT REFERENCES response (id), -- the latest response; NULL: none
    base       TEXT REFERENCES response (id) ON DELETE SET NULL, -- the head it had before an edit
    metadata   TEXT NOT NULL,                 -- JSON
    tail       TEXT NOT NULL                  -- JSON: the items after the head
) STRICT;

CREATE INDEX conversation_by_head ON conversation (head) WHERE head IS NOT NULL;
CREATE INDEX conversation_by_base ON conversation (base) WHERE base IS NOT NULL;
CREATE INDEX conversation_by_time ON conversation (tenant, created_ms, id);
CREATE INDEX conversation_by_title ON conversation (tenant, title, updated_ms) WHERE title <> '';
