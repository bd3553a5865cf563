-- What the Postgres sink asks the catalogs, and how it moves rows. {target}, {staging} and the like are
-- quoted by psycopg.sql; %(parameters)s are values. A statement has either names or parameters: beside a
-- parameter, a percent sign in a column's name would be taken for one.

-- name: find_table
-- The target, if it can be seen, what this user may do with it, and what of its own may change what is done: row
-- triggers that come before (bits 1 and 2 of tgtype), also those of partitions, and rules. Fleeting is what a crash of
-- the server would empty, or what commits by itself: the table, or partitions of it.
SELECT c.oid, n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
       pg_has_role(c.relowner, 'USAGE') AS is_owner,
       array(SELECT p.oid::regclass || CASE WHEN p.relkind = 'f' THEN ' (foreign)' WHEN p.relpersistence = 'u'
                                            THEN ' (unlogged)' ELSE ' (temporary)' END
               FROM pg_class p
              WHERE (p.oid = c.oid OR p.oid IN (SELECT relid FROM pg_partition_tree(c.oid)))
                AND p.relkind <> 'p' AND (p.relpersistence <> 'p' OR p.relkind = 'f')
              ORDER BY 1) AS fleeting,
       has_table_privilege(c.oid, 'INSERT') AS may_insert,
       has_table_privilege(c.oid, 'SELECT') AS may_select,
       has_table_privilege(c.oid, 'UPDATE') AS may_update,
       has_table_privilege(c.oid, 'DELETE') AS may_delete,
       has_schema_privilege(coalesce(%(staging_schema)s, n.nspname), 'CREATE') AS may_stage,
       has_database_privilege(current_database(), 'TEMPORARY') AS may_make_temporary,
       array(SELECT tgname::text FROM pg_trigger
              WHERE (tgrelid = c.oid OR tgrelid IN (SELECT relid FROM pg_partition_tree(c.oid)))
                AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 1 = 1 AND tgtype & 2 = 2
              GROUP BY 1 ORDER BY 1) AS triggers,
       array(SELECT rulename || ' on ' || CASE ev_type WHEN '2' THEN 'UPDATE' WHEN '3' THEN 'INSERT' ELSE 'DELETE' END
               FROM pg_rewrite WHERE ev_class = c.oid AND ev_enabled <> 'D' AND ev_type <> '1'
              ORDER BY 1) AS rules
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = to_regclass(%(table)s);

-- name: resolve_name
-- Schema and name of the table that a name stands for; of one that is not there, those that it would be made with.
SELECT coalesce((SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE c.oid = to_regclass(%(table)s)),
                coalesce(%(schema)s, current_schema(), '') || '.' || %(name)s);

-- name: list_columns
-- Columns of the target with the type at the bottom of a domain, and of an array that of its elements. A collation
-- is named where it is not the type's own.
WITH RECURSIVE bottom (attnum, oid, typmod) AS (
    SELECT attnum, atttypid, atttypmod FROM pg_attribute
     WHERE attrelid = %(oid)s AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT b.attnum, t.typbasetype, t.typtypmod
      FROM bottom b JOIN pg_type t ON t.oid = b.oid AND t.typtype = 'd'
)
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type_sql,
       a.atttypid::bigint AS type_oid, a.atttypmod AS type_modifier,
       t.typname AS base_type, t.typtype = 'e' AS is_enum, b.typmod,
       a.attnotnull AS not_null, a.atthasdef OR a.attidentity <> '' AS has_default,
       a.attgenerated <> '' OR a.attidentity = 'a' AS is_generated,
       CASE WHEN a.attcollation <> declared.typcollation
            THEN quote_ident(s.nspname) || '.' || quote_ident(o.collname) END AS collation,
       e.typname AS element_type, coalesce(e.typtype = 'e', false) AS element_is_enum, e.oid AS element_oid
  FROM pg_attribute a JOIN bottom b ON b.attnum = a.attnum
  JOIN pg_type t ON t.oid = b.oid AND t.typtype <> 'd'
  JOIN pg_type declared ON declared.oid = a.atttypid
  LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
  LEFT JOIN pg_collation o ON o.oid = a.attcollation
  LEFT JOIN pg_namespace s ON s.oid = o.collnamespace
 WHERE a.attrelid = %(oid)s ORDER BY a.attnum;

-- name: list_unique_indexes
-- Unique indexes that ON CONFLICT can use: plain columns, no predicate, checked at once. The column that says
-- how nulls compare exists since Postgres 15.
SELECT array_agg(a.attname::text ORDER BY a.attname) AS columns,
       coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false) AS nulls_are_equal
  FROM pg_index i JOIN pg_attribute a
    ON a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
 WHERE i.indrelid = %(oid)s AND i.indisunique AND i.indisvalid AND i.indimmediate
   AND i.indpred IS NULL AND i.indexprs IS NULL
 GROUP BY i.indexrelid, i.*;

-- name: create_table
-- The target as the DataFrame's schema has it.
CREATE TABLE IF NOT EXISTS {target} ({definitions});

-- name: add_column
-- Schema policy add-columns.
ALTER TABLE {target} ADD COLUMN IF NOT EXISTS {column} {type};

-- name: create_staging
-- Rows of tasks, by attempt, where no reader looks. Unlogged: a crash of the server empties it, and the
-- committing transaction counts.
CREATE UNLOGGED TABLE IF NOT EXISTS {staging} ({definitions})
  WITH (autovacuum_enabled = off);

-- name: create_temporary
-- The same for rows that came through the driver; it ends with the transaction.
CREATE TEMPORARY TABLE {staging} ({definitions}) ON COMMIT DROP;

-- name: copy_rows
-- Rows into a table, in the binary format.
COPY {table} ({columns}) FROM STDIN (FORMAT binary);

-- name: count_attempts
-- What the staging area really holds of each attempt.
SELECT {attempt}, count(*) FROM {staging} WHERE {attempt} = ANY ({attempts}) GROUP BY {attempt};

-- name: count_nulls
-- Rows with a null in a key that a unique index would not see, or in an order that then decides nothing.
SELECT count(*) FROM {staging} WHERE {attempt} = ANY ({attempts}) AND ({is_null});

-- name: count_keys
-- Keys of the batch, and those of them that are in the table once its rows have moved. One with a null in it is not
-- asked for: only an index that treats nulls as equal would find it.
SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM {target} AS held WHERE {is_same}))
  FROM (SELECT DISTINCT {keys} FROM {rows}) AS coming
 WHERE ({coming}) IS NOT NULL;

-- name: append
-- Mode append.
INSERT INTO {target} ({columns}) SELECT {columns} FROM {staging} WHERE {attempt} = ANY ({attempts});

-- name: ignore
-- Mode ignore. Rows go in by key where there is one, so that two transactions do not wait for each other; those that
-- collide in the order in which they came: the array of attempts is in the order of the tasks.
INSERT INTO {target} ({columns}) SELECT {columns} FROM {staging} WHERE {attempt} = ANY ({attempts})
 ORDER BY {order} array_position({attempts}, {attempt}), {row_number} ON CONFLICT {conflict} DO NOTHING;

-- name: merge
-- Mode merge: one row per key first (two rows of a key in one statement are an error), in the keys' order.
INSERT INTO {target} AS held ({columns})
SELECT {keys}, {sums} FROM {staging} WHERE {attempt} = ANY ({attempts})
 GROUP BY {keys} ORDER BY {keys}
    ON CONFLICT ({keys}) DO UPDATE SET {additions};

-- name: upsert
-- Mode upsert, in the keys' order. A key that comes twice makes it fail with cardinality_violation: two rows
-- of a key that nothing decides between.
INSERT INTO {target} AS held ({columns}) SELECT {columns} FROM {winners} ORDER BY {keys}
    ON CONFLICT ({keys}) DO {action};

-- name: all_rows
-- The rows of upsert without an order.
{staging} WHERE {attempt} = ANY ({attempts}){only};

-- name: highest_rows
-- The rows of upsert that their order puts first; of two equal ones both, which is an error then.
(SELECT {columns}, rank() OVER (PARTITION BY {keys} ORDER BY {descending}) AS {rank}
   FROM {staging} WHERE {attempt} = ANY ({attempts}){only}) AS ranked WHERE {rank} = 1;

-- name: replace_row
-- What upsert does to the row that is there.
UPDATE SET {assignments};

-- name: only_newer
-- ... if it is not newer itself. A null in its order is older than anything.
 WHERE {is_null} OR ({held}) <= ({coming});

-- name: mark_rows
-- Soft deletes: the rows of keys that are no more are marked, and keep what they have.
UPDATE {target} AS held SET {assignments} FROM (SELECT {columns} FROM {winners}) AS coming WHERE {is_same}{not_newer};

-- name: count_unmarked
-- Soft deletes: rows that a trigger has kept from being marked.
SELECT count(*) FROM {target} AS held, (SELECT {columns} FROM {winners}) AS coming
 WHERE {is_same}{not_newer} AND held.{column} IS NOT TRUE;

-- name: insert_marks
-- Soft deletes of keys that were never there.
INSERT INTO {target} ({stored}) SELECT {stored} FROM (SELECT {columns} FROM {winners}) AS coming
 WHERE NOT EXISTS (SELECT FROM {target} AS held WHERE {is_same});

-- name: delete_rows
-- Hard deletes: the rows of keys that are no more.
DELETE FROM {target} AS held USING (SELECT {columns} FROM {winners}) AS coming
 WHERE {is_same} AND coming.{column}{not_newer};

-- name: count_undeleted
-- Hard deletes: rows that a trigger has kept.
SELECT count(*) FROM {target} AS held, (SELECT {columns} FROM {winners}) AS coming
 WHERE {is_same} AND coming.{column}{not_newer};

-- name: last_truncate
-- The last row of the batch that tells a TRUNCATE.
(SELECT {columns} FROM {staging} WHERE {attempt} = ANY ({attempts}) AND {op} = {truncated}
  ORDER BY {descending} LIMIT 1) AS coming;

-- name: has_truncate
-- Whether there is one.
SELECT EXISTS (SELECT FROM {truncate});

-- name: truncate_rows
-- The rows that were there before it.
DELETE FROM {target} AS held USING {truncate} WHERE {is_older};

-- name: mark_truncated
-- ... where they are marked; those that are marked already remember it as well.
UPDATE {target} AS held SET {assignments} FROM {truncate} WHERE {is_older};

-- name: count_truncated
-- Rows that were there before it, and are still.
SELECT count(*) FROM {target} AS held, {truncate} WHERE {is_older};

-- name: count_not_truncated
-- Rows that a trigger has kept from being marked.
SELECT count(*) FROM {target} AS held, {truncate} WHERE ({is_older}) AND held.{column} IS NOT TRUE;

-- name: forget_truncated
-- What the batch itself has of before, with the rows that tell it.
DELETE FROM {staging} AS held USING {truncate} WHERE held.{attempt} = ANY ({attempts}) AND ({held}) <= ({coming});

-- name: empty_table
-- Mode replace. DELETE, since TRUNCATE would keep readers waiting, and show them an empty table.
DELETE FROM {target};

-- name: count_left
-- Mode replace: rows that a trigger has kept.
SELECT count(*) FROM {target};

-- name: find_double_key
-- A key that comes more often than once, for the message.
SELECT {keys}, count(*) FROM {winners} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1;

-- name: declared_types
-- Columns of the target as they are declared now. Whoever has written to it holds a lock that no ALTER gets past.
SELECT attname::text, atttypid::bigint, atttypmod, format_type(atttypid, atttypmod) FROM pg_attribute
 WHERE attrelid = to_regclass(%(table)s) AND attnum > 0 AND NOT attisdropped;

-- name: existing_staging
-- Whether this staging table is there.
SELECT to_regclass(%(name)s) IS NOT NULL;

-- name: ended_staging
-- Staging tables of batches up to this one: of this batch, of tries that failed, and of tasks that made theirs when
-- their batch was over already. Also those of older drivers' late tasks, unless one is at work in them. The beginning of
-- the pattern is fixed, so that the index on names is used.
SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %(schema)s AND c.relname ~ %(pipeline)s
   AND c.relkind = 'r' AND c.relpersistence = 'u' AND pg_has_role(c.relowner, 'USAGE')
   AND (substring(c.relname FROM %(driver)s)::bigint <= %(batch_id)s
        OR (substring(c.relname FROM %(pipeline)s)::bigint < %(generation)s
            AND NOT EXISTS (SELECT FROM pg_locks WHERE relation = c.oid)));

-- name: drop_staging
-- The batch has moved.
DROP TABLE {staging};

-- name: count_rows
-- For verify: rows, rows that name a record again, and the sums of the columns that merge adds up.
SELECT count(*), {doubled}{sums} FROM {target};

-- name: count_records
-- Rows beyond the first that name one record.
count(*) - count(DISTINCT ({record}));

-- name: sum_column
-- One added column's sum; no rows sum up to zero.
coalesce(sum({column}), 0);
