-- How rows move inside an embedded database. The statements are read by SQLite and by DuckDB, but where one is named.
-- {placeholders} are quoted names or SQL made of them; {insert} is the dialect's INSERT. WHERE 1 = 1 keeps SQLite's
-- parser from taking ON CONFLICT for a join's ON.
--
-- The columns of a batch are called c0, c1, ...; the names of the DataFrame's columns stand only where the target's
-- columns are meant, with the table in front where an expression is. SQLite takes a bare true or false for a column that
-- is called so, gives such a column another name in a subquery, and takes a quoted name that it does not know for a
-- string. So conditions are numbers, too.

-- name: create_table
-- The target as the DataFrame's schema has it.
CREATE TABLE IF NOT EXISTS {target} ({definitions}){suffix};

-- name: add_column
-- Schema policy add-columns.
ALTER TABLE {target} ADD COLUMN {column} {type};

-- name: create_batch
-- The rows of one batch, for the modes that look at them before they go in; rowid says in which order they came.
-- DuckDB: the columns have the target's types and collations, and compare as they do there. (Not by AS SELECT: in a
-- transaction, DuckDB 2.0 does not see more than 122,879 rows again that it has put into a table made so.)
-- SQLite: a column without a type keeps every value as it came.
CREATE TEMPORARY TABLE {batch} ({definitions});

-- name: as_in_target
-- SQLite: the rows of a bare batch, compared as in the target: a compound query has the collations of its first part.
(SELECT {held} FROM {target} AS held WHERE 1 = 0 UNION ALL SELECT {coming} FROM {batch}) AS coming;

-- name: drop_batch
-- They have moved.
DROP TABLE {batch};

-- name: try_insert
-- Whether the database itself would take the columns; nothing runs.
EXPLAIN INSERT INTO {target} ({columns}) SELECT {coming} FROM {batch};

-- name: empty_table
-- Mode replace.
DELETE FROM {target};

-- name: count_left
-- Mode replace: rows that a trigger has kept.
SELECT count(*) FROM {target};

-- name: append
-- Mode append, and replace, where the rows do not go straight into the table.
{insert} INTO {target} ({columns}) SELECT {coming} FROM {rows};

-- name: ignore
-- Mode ignore: of rows that collide the first stays.
{insert} INTO {target} ({columns}) SELECT {coming} FROM {firsts} {conflict};

-- name: rows_in_order
-- SQLite, which takes them one after the other: all rows.
{batch} WHERE 1 = 1 ORDER BY rowid;

-- name: first_rows
-- DuckDB, which would keep any of them: the first row of each key without a null. (Not by row_number(): DuckDB 2.0
-- gives wrong rows for a window over rowid in a query that also selects it.)
{batch} WHERE rowid IN (SELECT min(rowid) FROM {batch} WHERE NOT ({is_null}) GROUP BY {keys});

-- name: rows_without_key
-- DuckDB, which would take two nulls of one batch for equal: a row with a null in its key collides with none.
{batch} WHERE {is_null};

-- name: merge
-- Mode merge: one row per key first.
{insert} INTO {target} AS held ({columns})
SELECT {coming}, {sums} FROM {batch} WHERE 1 = 1 GROUP BY {coming}
    ON CONFLICT ({keys}) DO UPDATE SET {additions};

-- name: upsert
-- Mode upsert.
{insert} INTO {target} AS held ({columns}) SELECT {coming} FROM {winners}
    ON CONFLICT ({keys}) DO {action};

-- name: all_rows
-- The rows of upsert without an order.
{batch} WHERE 1 = 1{only};

-- name: highest_rows
-- The rows of upsert that their order puts first; of two equal ones both, which is an error then.
(SELECT {coming}, rank() OVER (PARTITION BY {keys} ORDER BY {descending}) AS place FROM {batch}
  WHERE 1 = 1{only}) AS ranked WHERE place = 1;

-- name: replace_row
-- What upsert does to the row that is there.
UPDATE SET {assignments};

-- name: only_newer
-- ... if it is not newer itself. A null in its order is older than anything.
WHERE {is_null} OR ({held}) <= ({coming});

-- name: mark_rows
-- Soft deletes: the rows of keys that are no more are marked, and keep what they have.
UPDATE {target} AS held SET {assignments} FROM (SELECT {all} FROM {winners}) AS coming WHERE {is_same}{not_newer};

-- name: count_unmarked
-- Soft deletes: rows that a trigger has kept from being marked.
SELECT count(*) FROM {target} AS held, (SELECT {all} FROM {winners}) AS coming
 WHERE {is_same}{not_newer} AND held.{marked} IS NOT TRUE;

-- name: insert_marks
-- Soft deletes of keys that were never there.
{insert} INTO {target} ({columns}) SELECT {coming} FROM (SELECT {all} FROM {winners}) AS coming
 WHERE NOT EXISTS (SELECT 1 FROM {target} AS held WHERE {is_same});

-- name: delete_rows
-- Hard deletes: the rows of keys that are no more.
DELETE FROM {target} AS held
 WHERE EXISTS (SELECT 1 FROM (SELECT {all} FROM {winners}) AS coming WHERE {is_same} AND coming.{column}{not_newer});

-- name: count_undeleted
-- Hard deletes: rows that a trigger has kept.
SELECT count(*) FROM {target} AS held
 WHERE EXISTS (SELECT 1 FROM (SELECT {all} FROM {winners}) AS coming WHERE {is_same} AND coming.{column}{not_newer});

-- name: count_deletes
-- Rows of the batch that delete.
SELECT count(*) FROM {batch} WHERE {column};

-- name: count_truncates
-- Rows of the batch that tell a TRUNCATE.
SELECT count(*) FROM {batch} WHERE {op} = {truncated};

-- name: create_truncate
-- The last of them, in a table of its own: each row that was there is compared with one row.
CREATE TEMPORARY TABLE {truncate} AS
SELECT {all} FROM {batch} WHERE {op} = {truncated} ORDER BY {descending} LIMIT 1;

-- name: drop_truncate
-- It has been compared.
DROP TABLE {truncate};

-- name: truncate_rows
-- The rows that were there before it.
DELETE FROM {target} AS held WHERE EXISTS (SELECT 1 FROM {truncate} AS coming WHERE {is_older});

-- name: count_truncated
-- ... that a trigger has kept.
SELECT count(*) FROM {target} AS held WHERE EXISTS (SELECT 1 FROM {truncate} AS coming WHERE {is_older});

-- name: mark_truncated
-- ... where they are marked; those that are marked already remember it as well.
UPDATE {target} AS held SET {assignments} FROM {truncate} AS coming WHERE {is_older};

-- name: count_not_truncated
-- Rows that a trigger has kept from being marked.
SELECT count(*) FROM {target} AS held, {truncate} AS coming WHERE ({is_older}) AND held.{marked} IS NOT TRUE;

-- name: forget_truncated
-- What the batch itself has of before, with the rows that tell it.
DELETE FROM {batch} AS earlier WHERE EXISTS (SELECT 1 FROM {truncate} AS later WHERE ({earlier}) <= ({later}));

-- name: count_keys
-- Keys of the batch, and those of them that are in the table once its rows have moved.
SELECT count(*), coalesce(sum(EXISTS (SELECT 1 FROM {target} AS held WHERE {is_same})), 0)
  FROM (SELECT DISTINCT {keys} FROM {rows}) AS coming;

-- name: count_nulls
-- Rows with a null in a key, which a unique index does not see, or in an order, which then decides nothing.
SELECT count(*) FROM {batch} WHERE {is_null};

-- name: find_double_key
-- A key that comes more often than once, for the message.
SELECT {keys}, count(*) FROM {winners} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1;

-- name: count_rows
-- For verify: rows, and the sums of the columns that merge adds up.
SELECT count(*){sums} FROM {target} AS held;

-- name: count_records
-- For verify: records that the rows name.
SELECT count(*) FROM (SELECT DISTINCT "topic", "partition", "offset" FROM {target}) AS records;
