-- Offsets in a user's own transaction. One row per stream and partition; people change next_offset to rewind. The user's
-- session may have any sql_mode, so names are in backticks.

-- name: exists
-- Whether the table is there.
SELECT count(*) FROM information_schema.tables
 WHERE table_schema = database() AND table_name = 'directkafka_offsets';

-- name: create
-- The table. next_offset is the first offset that is not processed yet.
CREATE TABLE IF NOT EXISTS directkafka_offsets (
    stream      varchar(255) NOT NULL,
    topic       varchar(249) NOT NULL,
    `partition` integer NOT NULL,
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    PRIMARY KEY (stream, topic, `partition`)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- name: load
-- Where a stream is.
SELECT topic, `partition`, next_offset FROM directkafka_offsets WHERE stream = %s;

-- name: preload
-- Where a stream starts in a partition that it has not met yet; what is there stays.
INSERT INTO directkafka_offsets (stream, topic, `partition`, next_offset) VALUES (%s, %s, %s, %s)
    ON DUPLICATE KEY UPDATE stream = directkafka_offsets.stream;

-- name: lock
-- Where a stream is in one partition, locked until the end of the transaction: of two drivers the second one waits, and
-- then finds the offset moved.
SELECT next_offset FROM directkafka_offsets WHERE stream = %s AND topic = %s AND `partition` = %s FOR UPDATE;

-- name: advance
-- Move it on, under that lock.
UPDATE directkafka_offsets SET next_offset = %s WHERE stream = %s AND topic = %s AND `partition` = %s;
