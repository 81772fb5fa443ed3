-- pawl.db, version 5: what was asked with an Idempotency-Key, and which response answers it.
--
-- SPDX-License-Identifier: Apache-2.0

CREATE TABLE idempotency (
    number     INTEGER PRIMARY KEY AUTOINCREMENT, -- by age
    tenant     TEXT NOT NULL,
    key        TEXT NOT NULL,                     -- as the client gave it
    hash       TEXT NOT NULL,                     -- of what was asked
    response   TEXT NOT NULL,                     -- its id; the row may be gone
    created_ms INTEGER NOT NULL,
    UNIQUE (tenant, key)
) STRICT;

CREATE INDEX idempotency_by_time ON idempotency (created_ms);
CREATE INDEX idempotency_by_response ON idempotency (response);
