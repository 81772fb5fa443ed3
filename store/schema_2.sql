-- pawl.db, version 2: API keys, and to whom a response belongs.
--
-- SPDX-License-Identifier: Apache-2.0

ALTER TABLE response ADD COLUMN tenant TEXT NOT NULL DEFAULT ''; -- '': nobody's key was asked for

-- Rows are never deleted: a server that has keys must not become one without.
CREATE TABLE api_key (
    id         TEXT NOT NULL PRIMARY KEY,
    hash       TEXT NOT NULL UNIQUE, -- SHA-256 of the secret, 64 hex digits
    hint       TEXT NOT NULL,        -- the secret's first characters
    name       TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    scopes     INTEGER NOT NULL,     -- bits of enum store_scope
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,     -- 0: never
    revoked_ms INTEGER NOT NULL,     -- 0: it is not
    used_ms    INTEGER NOT NULL      -- 0: never; to some minutes
) STRICT;
