-- Rows of a table by the records that they came from. The statements are read by Postgres, MySQL, SQLite and DuckDB.

-- name: of_record
-- The records of one range.
"topic" = $1 AND {exactly} AND "partition" = $2 AND "offset" >= $3 AND "offset" < $4;

-- name: count
-- How many rows there are of them.
SELECT count(*) FROM {target} WHERE {chosen};

-- name: count_locked
-- The same inside a commit, so that they are those that are deleted next.
SELECT count(*) FROM (SELECT 1 FROM {target} WHERE {chosen}{lock}) AS held;

-- name: delete
-- They are read again, and come anew.
DELETE FROM {target} WHERE {chosen};

-- name: odd
-- Whether a row has something else than a whole number where an offset belongs.
SELECT count(*) FROM (SELECT 1 FROM {target} WHERE NOT ({is_whole}) LIMIT 1) AS one;

-- name: any
-- Whether there is a row at all.
SELECT count(*) FROM (SELECT 1 FROM {target} LIMIT 1) AS one;
