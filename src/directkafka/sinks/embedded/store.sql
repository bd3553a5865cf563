-- The ledger in an embedded database. One row per pipeline. The statements are read by SQLite and by DuckDB, so
-- parameters are numbered in the order in which they first appear.

-- name: create_ledger
-- The ledger. A row is made by the first fence; batch_id is -1 until the first commit.
CREATE TABLE IF NOT EXISTS directkafka_ledger (
    pipeline         TEXT PRIMARY KEY NOT NULL,
    format_version   INTEGER NOT NULL,
    generation       BIGINT NOT NULL,
    driver           TEXT NOT NULL,
    fenced_at_ms     BIGINT NOT NULL,
    lineage          TEXT NOT NULL DEFAULT '',
    batch_id         BIGINT NOT NULL DEFAULT -1,
    batch_generation BIGINT NOT NULL DEFAULT 0,
    commit_id        TEXT NOT NULL DEFAULT '',
    progress         TEXT NOT NULL DEFAULT '[]',
    row_counts       TEXT NOT NULL DEFAULT '{}',
    total_rows       TEXT NOT NULL DEFAULT '{}',
    committed_at_ms  BIGINT NOT NULL DEFAULT 0
);

-- name: ledger_exists
-- Whether the file has a ledger. Both databases have this catalog under this name.
SELECT name FROM sqlite_master WHERE name = 'directkafka_ledger';

-- name: fence
-- Step 1: take the pipeline over, as one statement. No row comes back when the ledger already has the generation
-- that was given, or a higher one; unless it is this driver's own, whose answer was lost.
INSERT INTO directkafka_ledger AS ledger (pipeline, format_version, generation, driver, fenced_at_ms)
VALUES ($1, $2, coalesce(CAST($3 AS BIGINT), 1), $4, $5)
    ON CONFLICT (pipeline) DO UPDATE
   SET generation = coalesce(CAST($3 AS BIGINT), ledger.generation + 1),
       driver = excluded.driver, fenced_at_ms = excluded.fenced_at_ms
 WHERE CAST($3 AS BIGINT) IS NULL OR ledger.generation < CAST($3 AS BIGINT)
    OR (ledger.generation = CAST($3 AS BIGINT) AND ledger.driver = excluded.driver)
RETURNING generation;

-- name: list_pipelines
-- Who has committed here.
SELECT pipeline FROM directkafka_ledger WHERE batch_id >= 0 ORDER BY pipeline;

-- name: read_entry
-- Step 2, and the answer to every doubt: the row as last committed.
SELECT pipeline, format_version, generation, lineage, batch_id, batch_generation, commit_id,
       progress, row_counts, total_rows, committed_at_ms
  FROM directkafka_ledger WHERE pipeline = $1;

-- name: lock_row
-- Step 4, the first statement of the committing transaction: as a write it lets no other writer in, and its
-- condition is false for a driver that was fenced.
UPDATE directkafka_ledger SET driver = $1 WHERE pipeline = $2 AND generation = $3
RETURNING pipeline;

-- name: advance
-- Step 4, the last statement before COMMIT.
UPDATE directkafka_ledger
   SET format_version = $1, lineage = $2, batch_id = $3, batch_generation = $4, commit_id = $5,
       progress = $6, row_counts = $7, total_rows = $8, committed_at_ms = $9
 WHERE pipeline = $10;
