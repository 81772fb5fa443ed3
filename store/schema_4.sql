-- pawl.db, version 4: runs of pipelines, what their steps gave, what they said.
--
-- SPDX-License-Identifier: Apache-2.0

-- The text of a script with the modules that it requires, by its digest: a run goes on
-- with the text that it began with.
CREATE TABLE source (
    hash TEXT NOT NULL PRIMARY KEY, -- SHA-256 of text, 64 hex digits
    text TEXT NOT NULL
) STRICT;

CREATE TABLE run (
    id         TEXT NOT NULL PRIMARY KEY,
    pipeline   TEXT NOT NULL,    -- its name
    path       TEXT NOT NULL,    -- the file that it was read from, '' none
    source     TEXT NOT NULL REFERENCES source (hash),
    state      TEXT NOT NULL,    -- running, parked, done, failed, cancelled
    tenant     TEXT NOT NULL,    -- whose it is
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    params     TEXT NOT NULL,    -- JSON
    result     TEXT NOT NULL     -- JSON: what it returned, its error, or its question
) STRICT;

CREATE INDEX run_by_time ON run (created_ms);
CREATE INDEX run_by_source ON run (source);

CREATE TABLE step (
    run   TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    key   TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    value TEXT NOT NULL, -- JSON
    PRIMARY KEY (run, key)
) STRICT;

CREATE TABLE run_event (
    run   TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    seq   INTEGER NOT NULL, -- from 1; holes are possible
    at_ms INTEGER NOT NULL,
    type  TEXT NOT NULL,
    data  TEXT NOT NULL, -- JSON
    PRIMARY KEY (run, seq)
) STRICT;
