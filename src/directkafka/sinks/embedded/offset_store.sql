-- Offsets in a user's own transaction, in SQLite and DuckDB. One row per stream and partition; people change
-- next_offset to rewind.

-- name: exists
-- Whether the table is there. Both databases have this catalog under this name.
SELECT count(*) FROM sqlite_master WHERE name = 'directkafka_offsets';

-- name: create
-- The table. next_offset is the first offset that is not processed yet.
CREATE TABLE IF NOT EXISTS directkafka_offsets (
    stream      TEXT NOT NULL,
    topic       TEXT NOT NULL,
    "partition" INTEGER NOT NULL,
    next_offset BIGINT NOT NULL CHECK (next_offset >= 0),
    PRIMARY KEY (stream, topic, "partition")
);

-- name: load
-- Where a stream is.
SELECT topic, "partition", next_offset FROM directkafka_offsets WHERE stream = ?;

-- name: preload
-- Where a stream starts in a partition that it has not met yet; what is there stays.
INSERT INTO directkafka_offsets (stream, topic, "partition", next_offset) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: advance
-- Move a stream on in one partition, if it stands at the start of the range.
UPDATE directkafka_offsets SET next_offset = ?
 WHERE stream = ? AND topic = ? AND "partition" = ? AND next_offset = ?;
