-- pawl.db, version 1. Scripts are never changed once released: a later version
-- is one more script, run after this one (migrate.c).
--
-- Columns that are read alone stand first: SQLite then need not follow the
-- overflow pages of the long ones behind them.
--
-- SPDX-License-Identifier: Apache-2.0

CREATE TABLE response (
    id           TEXT NOT NULL PRIMARY KEY,
    parent       TEXT REFERENCES response (id), -- NULL at a root
    removed      INTEGER NOT NULL DEFAULT 0,    -- 1: kept for its descendants only
    n_prompt     INTEGER NOT NULL,              -- how many of tokens are the prompt
    created_ms   INTEGER NOT NULL,
    completed_ms INTEGER NOT NULL,
    model        TEXT NOT NULL,
    status       TEXT NOT NULL,
    request      TEXT NOT NULL,                 -- JSON
    result       TEXT NOT NULL,                 -- JSON
    input        TEXT NOT NULL,                 -- JSON
    output       TEXT NOT NULL,                 -- JSON
    tokens       BLOB NOT NULL                  -- int32, little-endian
) STRICT;

CREATE INDEX response_by_parent ON response (parent);
