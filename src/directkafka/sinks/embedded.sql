-- How rows move inside an embedded database. The statements are read by SQLite and by DuckDB. {placeholders} are
-- quoted names or SQL made of them. WHERE true keeps SQLite's parser from taking ON CONFLICT for a join's ON.

-- name: create_table
-- The target as the DataFrame's schema has it.
CREATE TABLE IF NOT EXISTS {target} ({definitions}){suffix};

-- name: add_column
-- Schema policy add-columns.
ALTER TABLE {target} ADD COLUMN {column} {type};

-- name: create_batch
-- The rows of one batch, for the modes that look at them before they go in.
CREATE TEMPORARY TABLE {batch} ({definitions});

-- name: drop_batch
-- They have moved.
DROP TABLE {batch};

-- name: try_insert
-- Whether the database itself would take the columns; nothing runs.
EXPLAIN INSERT INTO {target} ({columns}) SELECT {columns} FROM {batch};

-- name: empty_table
-- Mode replace.
DELETE FROM {target};

-- name: ignore
-- Mode ignore.
INSERT INTO {target} ({columns}) SELECT {columns} FROM {batch} WHERE true {conflict};

-- name: merge
-- Mode merge: one row per key first.
INSERT INTO {target} AS held ({columns})
SELECT {keys}, {sums} FROM {batch} WHERE true GROUP BY {keys}
    ON CONFLICT ({keys}) DO UPDATE SET {additions};

-- name: upsert
-- Mode upsert.
INSERT INTO {target} AS held ({columns}) SELECT {columns} FROM {winners}
    ON CONFLICT ({keys}) DO {action};

-- name: all_rows
-- The rows of upsert without an order.
{batch} WHERE true;

-- name: highest_rows
-- The rows of upsert that their order puts first; of two equal ones both, which is an error then.
(SELECT {columns}, rank() OVER (PARTITION BY {keys} ORDER BY {descending}) AS directkafka_rank FROM {batch})
 AS ranked WHERE directkafka_rank = 1;

-- name: replace_row
-- What upsert does to the row that is there.
UPDATE SET {assignments};

-- name: only_newer
-- ... if it is not newer itself. A null in its order is older than anything.
WHERE {is_null} OR ({held}) <= ({coming});

-- name: count_nulls
-- Rows with a null in a key, which a unique index does not see, or in an order, which then decides nothing.
SELECT count(*) FROM {batch} WHERE {is_null};

-- name: find_double_key
-- A key that comes more often than once, for the message.
SELECT {keys}, count(*) FROM {winners} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1;

-- name: count_rows
-- For verify: rows, and the sums of the columns that merge adds up.
SELECT count(*){sums} FROM {target};

-- name: count_records
-- For verify: records that the rows name.
SELECT count(*) FROM (SELECT DISTINCT "topic", "partition", "offset" FROM {target}) AS records;
