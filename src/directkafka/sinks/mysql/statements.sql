-- What the MySQL sink asks the server, and how it moves rows. {placeholders} are quoted names or SQL made of them;
-- %(parameters)s are values. A statement has either names or parameters: beside a parameter, a percent sign in a column's
-- name would be taken for one.

-- name: find_table
-- The target, if it is there.
SELECT table_type, engine FROM information_schema.tables WHERE table_schema = %(schema)s AND table_name = %(name)s;

-- name: list_columns
-- Its columns.
SELECT column_name, column_type, data_type, is_nullable, column_default, extra, numeric_precision, numeric_scale,
       datetime_precision, collation_name, generation_expression
  FROM information_schema.columns WHERE table_schema = %(schema)s AND table_name = %(name)s ORDER BY ordinal_position;

-- name: list_unique_indexes
-- The columns of its unique indexes; a column without a name is an expression, one with a length only a beginning.
SELECT index_name, column_name, sub_part IS NOT NULL FROM information_schema.statistics
 WHERE table_schema = %(schema)s AND table_name = %(name)s AND non_unique = 0 ORDER BY index_name, seq_in_index;

-- name: binary_collation
-- The collation that compares texts byte by byte, blanks at the end included. MariaDB knows the name of MySQL's as well,
-- and takes it for one that leaves these blanks out.
SELECT max(collation_name) FROM information_schema.collations
 WHERE collation_name IN ('utf8mb4_0900_bin', 'utf8mb4_nopad_bin');

-- name: create_table
-- The target as the DataFrame's schema has it.
CREATE TABLE IF NOT EXISTS {target} ({definitions}) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- name: add_column
-- Schema policy add-columns.
ALTER TABLE {target} ADD COLUMN {column} {type};

-- name: create_staging
-- Rows of tasks, by attempt, where no reader looks; {row_number} counts them as they came.
CREATE TABLE IF NOT EXISTS {staging} ({definitions}) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- name: create_temporary
-- The same for rows that came through the driver. It does not end the transaction.
CREATE TEMPORARY TABLE {staging} ({definitions}) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

-- name: drop_temporary
-- They have moved.
DROP TEMPORARY TABLE IF EXISTS {staging};

-- name: try_insert
-- Whether this user may write, and the server would take the columns; nothing runs.
EXPLAIN INSERT INTO {target} ({columns}) SELECT {columns} FROM {target} WHERE 1 = 0;

-- name: insert_values
-- Rows as literals follow.
INSERT INTO {target} ({columns}) VALUES;

-- name: count_attempts
-- What the staging area really holds of each attempt.
SELECT lower(hex({attempt})), count(*) FROM {staging} WHERE {attempt} IN ({attempts}) GROUP BY {attempt};

-- name: count_nulls
-- Rows with a null in a key, which a unique index does not see, or in an order, which then decides nothing.
SELECT count(*) FROM {staging} WHERE {attempt} IN ({attempts}) AND ({is_null});

-- name: append
-- Modes append and replace.
INSERT INTO {target} ({columns}) SELECT {columns} FROM {staging} WHERE {attempt} IN ({attempts});

-- name: ignore
-- Mode ignore: rows in the order in which they came, of which the first of those that collide stays. (INSERT IGNORE would
-- also make values fit that do not.)
INSERT INTO {target} ({columns})
SELECT {columns} FROM {staging} WHERE {attempt} IN ({attempts}) ORDER BY field({attempt}, {attempts}), {row_number}
    ON DUPLICATE KEY UPDATE {nothing};

-- name: merge
-- Mode merge: one row per key first, in the keys' order.
INSERT INTO {target} ({columns})
SELECT * FROM (SELECT {keys}, {sums} FROM {staging} WHERE {attempt} IN ({attempts})
                GROUP BY {keys} ORDER BY {keys}) AS coming
    ON DUPLICATE KEY UPDATE {additions};

-- name: upsert
-- Mode upsert, in the keys' order.
INSERT INTO {target} ({columns})
SELECT * FROM (SELECT {columns} FROM {winners} ORDER BY {keys}) AS coming
    ON DUPLICATE KEY UPDATE {replacement};

-- name: all_rows
-- The rows of upsert without an order.
(SELECT {columns} FROM {staging} WHERE {attempt} IN ({attempts}){only}) AS winner;

-- name: highest_rows
-- The rows of upsert that their order puts first; of two equal ones both, which is an error then.
(SELECT {columns}, rank() OVER (PARTITION BY {keys} ORDER BY {descending}) AS {rank}
   FROM {staging} WHERE {attempt} IN ({attempts}){only}) AS winner WHERE {rank} = 1;

-- name: newer_rows
-- ... and are not older than the row that is there. A null in its order is older than anything. What is read of the
-- target here is locked until the transaction ends.
(SELECT {coming} FROM (SELECT {columns} FROM {winners}) AS newer LEFT JOIN {target} AS held ON {is_same}
  WHERE {is_new} OR {is_null} OR ({held}) <= ({order})) AS winner;

-- name: live_rows
-- Hard deletes: those of the rows that delete nothing.
(SELECT {columns} FROM {winners}) AS live WHERE NOT {column};

-- name: delete_rows
-- Hard deletes: the rows of keys that are no more.
DELETE held FROM {target} AS held JOIN (SELECT {columns} FROM {winners}) AS coming ON {is_same}
 WHERE coming.{column} AND ({not_newer});

-- name: mark_rows
-- Soft deletes: the rows of keys that are no more are marked, and keep what they have.
UPDATE {target} AS held JOIN (SELECT {columns} FROM {winners}) AS coming ON {is_same}
   SET {assignments} WHERE {not_newer};

-- name: insert_marks
-- Soft deletes of keys that were never there.
INSERT INTO {target} ({stored}) SELECT {stored} FROM (SELECT {columns} FROM {winners}) AS coming
 WHERE NOT EXISTS (SELECT 1 FROM {target} AS held WHERE {is_same});

-- name: count_truncates
-- Rows of the batch that tell a TRUNCATE. (LIKE, since = passes over blanks at the end.)
SELECT count(*) FROM {staging} WHERE {attempt} IN ({attempts}) AND {op} LIKE {truncated};

-- name: last_truncate
-- What the last of them brings. A temporary table can be named once in a statement, so it goes into variables.
SELECT {taken} INTO {variables} FROM {staging} WHERE {attempt} IN ({attempts}) AND {op} LIKE {truncated}
 ORDER BY {descending} LIMIT 1;

-- name: truncate_rows
-- The rows that were there before it.
DELETE FROM {target} WHERE {is_older};

-- name: mark_truncated
-- ... where they are marked; those that are marked already remember it as well.
UPDATE {target} SET {assignments} WHERE {is_older};

-- name: forget_truncated
-- What the batch itself has of before, with the rows that tell it.
DELETE FROM {staging} WHERE {attempt} IN ({attempts}) AND ({order}) <= ({variables});

-- name: find_double_key
-- A key that comes more often than once, for the message.
SELECT {keys}, count(*) FROM {winners} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1;

-- name: empty_table
-- Mode replace. DELETE, since TRUNCATE would end the transaction.
DELETE FROM {target};

-- name: count_rows
-- For verify: rows, and the sums of the columns that merge adds up.
SELECT count(*){sums} FROM {target};

-- name: count_records
-- For verify: records that the rows name.
SELECT count(*) FROM (SELECT DISTINCT "topic", "partition", "offset" FROM {target}) AS records;
