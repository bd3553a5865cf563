-- The ledger in MySQL and MariaDB. One row per pipeline; every statement of the commit protocol is here.

-- name: identify_mysql
-- Which running server and database this is.
SELECT concat_ws('/', @@server_uuid, @@hostname, @@port, database());

-- name: identify_mariadb
-- The same in MariaDB.
SELECT concat_ws('/', @@server_uid, @@hostname, @@port, database());

-- name: find_ledger
-- The ledger's engine, if there is one.
SELECT engine FROM information_schema.tables
 WHERE table_schema = database() AND table_name = 'directkafka_ledger';

-- name: create_ledger
-- The ledger. A row is made by the first fence; batch_id is -1 until the first commit. What the last fence wrote
-- (generation, driver, session) stands apart from what the last commit wrote (the rest).
CREATE TABLE IF NOT EXISTS directkafka_ledger (
    pipeline         varchar(255) NOT NULL PRIMARY KEY,
    format_version   integer NOT NULL,
    generation       bigint NOT NULL,
    driver           varchar(255) NOT NULL,
    session          varchar(64) NOT NULL,
    fenced_at        datetime(6) NOT NULL,
    lineage          varchar(255) NOT NULL,
    batch_id         bigint NOT NULL,
    batch_generation bigint NOT NULL,
    commit_id        char(32) NOT NULL,
    progress         longtext NOT NULL,
    row_counts       longtext NOT NULL,
    total_rows       longtext NOT NULL,
    committed_at_ms  bigint NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- name: mark_session
-- A lock by name is a session's for as long as it lives: whoever knows the name finds the session, and no other one.
SELECT get_lock(%(session)s, 0);

-- name: new_row
-- The row of a pipeline that nobody has fenced; and the row's lock.
INSERT INTO directkafka_ledger VALUES (%(pipeline)s, %(format_version)s, 0, '', '', utc_timestamp(6), '', -1, 0, '',
                                       '[]', '{}', '{}', 0)
    ON DUPLICATE KEY UPDATE generation = generation;

-- name: lock_row
-- Wait until no other transaction is changing the row, and read it.
SELECT pipeline, format_version, generation, driver, lineage, batch_id, batch_generation, commit_id, progress,
       row_counts, total_rows, committed_at_ms
  FROM directkafka_ledger WHERE pipeline = %(pipeline)s FOR UPDATE;

-- name: list_pipelines
-- Who has committed here.
SELECT pipeline FROM directkafka_ledger WHERE batch_id >= 0 ORDER BY pipeline;

-- name: read_row
-- Step 2, and the answer to every doubt: the row as last committed.
SELECT pipeline, format_version, generation, driver, lineage, batch_id, batch_generation, commit_id, progress,
       row_counts, total_rows, committed_at_ms
  FROM directkafka_ledger WHERE pipeline = %(pipeline)s;

-- name: fence
-- Step 1, under the row's lock: take the pipeline over.
UPDATE directkafka_ledger
   SET generation = %(generation)s, driver = %(driver)s, session = %(session)s, fenced_at = utc_timestamp(6)
 WHERE pipeline = %(pipeline)s;

-- name: record_session
-- A driver that had to reconnect says which session is its own now, if it still owns the pipeline.
UPDATE directkafka_ledger SET driver = %(driver)s, session = %(session)s
 WHERE pipeline = %(pipeline)s AND generation = %(generation)s;

-- name: recorded_session
-- The connection of the session that the row names, if it lives: a driver that fences ends an older driver's, one that
-- looks for its own end its own.
SELECT is_used_lock(session) FROM directkafka_ledger
 WHERE pipeline = %(pipeline)s AND (driver = %(driver)s OR generation < %(below_generation)s)
   AND is_used_lock(session) <> connection_id();

-- name: advance
-- Step 4, under the row's lock and behind its check.
UPDATE directkafka_ledger
   SET format_version = %(format_version)s, lineage = %(lineage)s, batch_id = %(batch_id)s,
       batch_generation = %(generation)s, commit_id = %(commit_id)s, progress = %(progress)s,
       row_counts = %(row_counts)s, total_rows = %(total_rows)s, committed_at_ms = %(committed_at_ms)s
 WHERE pipeline = %(pipeline)s;

-- name: list_staging
-- Staging tables of a pipeline: staging_name() puts the generation and the batch into the name.
SELECT table_name FROM information_schema.tables
 WHERE table_schema = %(schema)s AND table_name LIKE %(pattern)s;

-- name: session_state
-- What a session is at.
SELECT state FROM information_schema.processlist WHERE id = %(session)s;

-- name: row_blockers_mysql
-- Who has the rows that a session waits for.
SELECT DISTINCT blocker.processlist_id, blocker.processlist_user, blocker.processlist_command,
       blocker.processlist_time, blocker.processlist_info
  FROM performance_schema.data_lock_waits AS waits
  JOIN performance_schema.threads AS waiting ON waiting.thread_id = waits.requesting_thread_id
  JOIN performance_schema.threads AS blocker ON blocker.thread_id = waits.blocking_thread_id
 WHERE waiting.processlist_id = %(session)s;

-- name: row_blockers_mariadb
-- The same in MariaDB.
SELECT DISTINCT blocker.trx_mysql_thread_id, list.user, list.command, list.time, list.info
  FROM information_schema.innodb_lock_waits AS waits
  JOIN information_schema.innodb_trx AS waiting ON waiting.trx_id = waits.requesting_trx_id
  JOIN information_schema.innodb_trx AS blocker ON blocker.trx_id = waits.blocking_trx_id
  LEFT JOIN information_schema.processlist AS list ON list.id = blocker.trx_mysql_thread_id
 WHERE waiting.trx_mysql_thread_id = %(session)s;

-- name: table_blockers_mysql
-- Who has the table that a session waits for.
SELECT DISTINCT blocker.processlist_id, blocker.processlist_user, blocker.processlist_command,
       blocker.processlist_time, blocker.processlist_info
  FROM performance_schema.threads AS waiting
  JOIN performance_schema.metadata_locks AS wanted
    ON wanted.owner_thread_id = waiting.thread_id AND wanted.lock_status = 'PENDING'
  JOIN performance_schema.metadata_locks AS held
    ON held.object_schema = wanted.object_schema AND held.object_name = wanted.object_name
   AND held.lock_status = 'GRANTED' AND held.owner_thread_id <> wanted.owner_thread_id
  JOIN performance_schema.threads AS blocker ON blocker.thread_id = held.owner_thread_id
 WHERE waiting.processlist_id = %(session)s;

-- name: table_blockers_mariadb
-- Who may have it: MariaDB tells no more. Those that are at work, or have a transaction open, or have this database open.
SELECT blocker.id, blocker.user, blocker.command, blocker.time, blocker.info
  FROM information_schema.processlist AS waiting
  JOIN information_schema.processlist AS blocker ON blocker.id NOT IN (waiting.id, connection_id())
 WHERE waiting.id = %(session)s AND blocker.command <> 'Daemon'
   AND (blocker.command <> 'Sleep' OR blocker.db = waiting.db
        OR blocker.id IN (SELECT trx_mysql_thread_id FROM information_schema.innodb_trx))
   AND coalesce(blocker.state, '') NOT LIKE 'Waiting for table%%'
 ORDER BY blocker.time DESC LIMIT 5;
