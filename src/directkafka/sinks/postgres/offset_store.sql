-- Offsets in a user's own transaction. One row per stream and partition; people change next_offset to rewind.

-- name: exists
-- Whether the table can be seen on the search path.
SELECT to_regclass('directkafka_offsets') IS NOT NULL;

-- name: create
-- The table. next_offset is the first offset that is not processed yet.
CREATE TABLE IF NOT EXISTS directkafka_offsets (
    stream      text NOT NULL,
    topic       text NOT NULL,
    partition   integer NOT NULL,
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    PRIMARY KEY (stream, topic, partition)
);

-- name: load
-- Where a stream is.
SELECT topic, partition, next_offset
  FROM directkafka_offsets
 WHERE stream = %(stream)s;

-- name: preload
-- Where a stream starts in partitions that it has not met yet; what is there stays.
INSERT INTO directkafka_offsets (stream, topic, partition, next_offset)
SELECT %(stream)s, topic, partition, next_offset
  FROM unnest(%(topics)s::text[], %(partitions)s::integer[], %(offsets)s::bigint[])
       AS given (topic, partition, next_offset)
    ON CONFLICT DO NOTHING;

-- name: advance
-- Move a stream on, in those partitions where it stands at the start of the range. Rows are locked until the end of
-- the transaction: of two drivers, the second one waits, and then finds the offset moved.
UPDATE directkafka_offsets AS known
   SET next_offset = given.until_offset
  FROM unnest(%(topics)s::text[], %(partitions)s::integer[], %(starts)s::bigint[], %(ends)s::bigint[])
       AS given (topic, partition, from_offset, until_offset)
 WHERE known.stream = %(stream)s
   AND known.topic = given.topic
   AND known.partition = given.partition
   AND known.next_offset = given.from_offset
RETURNING known.topic, known.partition;
