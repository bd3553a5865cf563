-- The ledger in Postgres. One row per pipeline; every statement of the commit protocol is here.

-- name: identify
-- Which running server, database and schema this is. The server's start time tells a copy of a data
-- directory (a restored snapshot has the same system identifier) from the original.
SELECT {system_identifier} || '.' || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
       || '/' || current_database() || '/' || coalesce(
           (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.oid = to_regclass('directkafka_ledger')), current_schema(), '');

-- name: find_ledger
-- The ledger, if it can be seen on the search path, and whether it outlasts a crash of the server.
SELECT oid::regclass::text, relkind = 'r', relpersistence::text
  FROM pg_class WHERE oid = to_regclass('directkafka_ledger');

-- name: ledger_schema
-- Where the ledger is; before there is one, where it would be made.
SELECT coalesce((SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass('directkafka_ledger')),
                current_schema());

-- name: create_ledger
-- The ledger. A row is made by the first fence; batch_id is -1 until the first commit. What the last fence
-- wrote (generation, driver, backend) stands apart from what the last commit wrote (the rest).
CREATE TABLE IF NOT EXISTS directkafka_ledger (
    pipeline         text PRIMARY KEY,
    format_version   integer NOT NULL,
    generation       bigint NOT NULL,
    driver           text NOT NULL,
    backend_pid      integer NOT NULL,
    backend_start    timestamptz NOT NULL,
    fenced_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    lineage          text NOT NULL DEFAULT '',
    batch_id         bigint NOT NULL DEFAULT -1,
    batch_generation bigint NOT NULL DEFAULT 0,
    commit_id        uuid,
    progress         jsonb NOT NULL DEFAULT '[]',
    row_counts       jsonb NOT NULL DEFAULT '{}',
    total_rows       jsonb NOT NULL DEFAULT '{}',
    committed_at     timestamptz
);

-- name: configure_session
-- What every session of ours needs, said by SET because poolers refuse startup options. A driver that hangs
-- in its transaction loses it after a while, even if no newer driver comes to end it. No lock is waited for without
-- end; a limit that the user has set stays.
SELECT set_config('application_name', %(application_name)s, false),
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, false),
       set_config('lock_timeout',
                  CASE current_setting('lock_timeout') WHEN '0' THEN %(lock_timeout)s
                  ELSE current_setting('lock_timeout') END, false),
       set_config('synchronous_commit',
                  CASE WHEN %(durable)s THEN 'on' ELSE current_setting('synchronous_commit') END, false);

-- name: backend
-- Process id and start of this session's server process; together they are never used twice.
SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid();

-- name: waiting_for
-- What a session waits for, and who is in its way: one row for each session that has the lock or is before it in the
-- queue, and one row without a pid where there is none. Another user's state and statement need pg_read_all_stats.
SELECT DISTINCT waiting.wait_event, blocking.pid, blocker.usename, blocker.application_name, blocker.state,
       extract(epoch FROM clock_timestamp() - coalesce(blocker.state_change, blocker.xact_start))::bigint AS state_s,
       blocker.query,
       (SELECT CASE WHEN relation IS NOT NULL THEN mode || ' on ' || relation::regclass
                    WHEN locktype = 'transactionid' THEN 'a row that another transaction has changed'
                    ELSE 'a lock of type ' || locktype END
          FROM pg_locks WHERE pg_locks.pid = waiting.pid AND NOT granted LIMIT 1) AS lock
  FROM pg_stat_activity AS waiting
  LEFT JOIN LATERAL unnest(pg_blocking_pids(waiting.pid)) AS blocking (pid) ON true
  LEFT JOIN pg_stat_activity AS blocker ON blocker.pid = blocking.pid
 WHERE waiting.pid = %(pid)s;

-- name: fence
-- Step 1: take the pipeline over, as one transaction of one statement. No row comes back when the ledger
-- already has the generation that was given, or a higher one; unless it is this driver's own, whose answer was
-- lost.
INSERT INTO directkafka_ledger AS ledger
       (pipeline, format_version, generation, driver, backend_pid, backend_start)
VALUES (%(pipeline)s, %(format_version)s, coalesce(%(generation)s::bigint, 1),
        %(driver)s, %(backend_pid)s, %(backend_start)s)
    ON CONFLICT (pipeline) DO UPDATE
   SET generation = coalesce(%(generation)s::bigint, ledger.generation + 1),
       driver = excluded.driver, backend_pid = excluded.backend_pid,
       backend_start = excluded.backend_start, fenced_at = clock_timestamp()
 WHERE %(generation)s::bigint IS NULL OR ledger.generation < %(generation)s::bigint
    OR (ledger.generation = %(generation)s::bigint AND ledger.driver = excluded.driver)
RETURNING generation;

-- name: record_backend
-- A driver that had to reconnect says which server process is its own now, if it still owns the pipeline.
UPDATE directkafka_ledger
   SET driver = %(driver)s, backend_pid = %(backend_pid)s, backend_start = %(backend_start)s
 WHERE pipeline = %(pipeline)s AND generation = %(generation)s;

-- name: terminate_recorded_backend
-- End the server process that the row names, if it is still the same process and has an open transaction
-- that wrote to the ledger: a lock in row exclusive mode on the ledger is held until that transaction ends. A driver
-- that fences ends an older driver's; one that only looks for its own end ends its own, never a newer driver's.
SELECT pg_terminate_backend(activity.pid)
  FROM directkafka_ledger AS ledger
  JOIN pg_stat_activity AS activity
    ON activity.pid = ledger.backend_pid AND activity.backend_start = ledger.backend_start
 WHERE ledger.pipeline = %(pipeline)s
   AND (ledger.driver = %(driver)s OR ledger.generation < %(below_generation)s)
   AND activity.pid <> pg_backend_pid()
   AND EXISTS (SELECT FROM pg_locks
                WHERE pg_locks.pid = activity.pid AND granted
                  AND relation = 'directkafka_ledger'::regclass AND mode = 'RowExclusiveLock');

-- name: describe_blockers
-- Who else has an open transaction that wrote to the ledger or locked rows of it; for messages.
SELECT string_agg('process ' || pid || ' (' || coalesce(application_name, '?') || ', user '
                  || coalesce(usename, '?') || ')', ', ' ORDER BY pid)
  FROM pg_stat_activity
 WHERE pid <> pg_backend_pid()
   AND pid IN (SELECT pid FROM pg_locks WHERE granted AND relation = 'directkafka_ledger'::regclass
                  AND mode IN ('RowShareLock', 'RowExclusiveLock', 'ShareRowExclusiveLock',
                               'ExclusiveLock', 'AccessExclusiveLock'));

-- name: list_pipelines
-- Who has committed here.
SELECT pipeline FROM directkafka_ledger WHERE batch_id >= 0 ORDER BY pipeline COLLATE "C";

-- name: read_entry
-- Step 2, and the answer to every doubt: the row as last committed.
SELECT pipeline, format_version, generation, lineage, batch_id, batch_generation, commit_id,
       progress, row_counts, total_rows,
       coalesce((extract(epoch FROM committed_at) * 1000)::bigint, 0) AS committed_at_ms
  FROM directkafka_ledger WHERE pipeline = %(pipeline)s;

-- name: lock_row
-- Wait until no other transaction is changing the row.
SELECT FROM directkafka_ledger WHERE pipeline = %(pipeline)s FOR UPDATE;

-- name: advance
-- Step 4, the first statement of the committing transaction: its condition is the whole protocol, its row
-- lock serialises two drivers. One row or nothing.
UPDATE directkafka_ledger
   SET format_version = %(format_version)s, lineage = %(lineage)s, batch_id = %(batch_id)s,
       batch_generation = %(generation)s, commit_id = %(commit_id)s, progress = %(progress)s,
       committed_at = timestamptz 'epoch' + %(committed_at_ms)s * interval '1 millisecond'
 WHERE pipeline = %(pipeline)s AND generation = %(generation)s
   AND batch_id = %(previous_batch_id)s AND lineage = %(previous_lineage)s
   AND progress = %(previous_progress)s;

-- name: count_rows
-- Step 4, the last statement before COMMIT: what the sinks took.
UPDATE directkafka_ledger SET row_counts = %(row_counts)s, total_rows = %(total_rows)s
 WHERE pipeline = %(pipeline)s;

-- name: stale_staging
-- Staging tables of this pipeline that belong to lower generations: staging_name() puts the generation into
-- the name. Only those this user may drop: to be a member of the owning role is not enough where its rights are not
-- inherited.
SELECT n.nspname, c.relname
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND c.relpersistence = 'u' AND pg_has_role(c.relowner, 'USAGE')
   AND substring(c.relname FROM %(pattern)s)::bigint < %(generation)s;
