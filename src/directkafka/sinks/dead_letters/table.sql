-- Dead letters in a table, for a replay. The statements are read by Postgres, MySQL, SQLite and DuckDB; {placeholders}
-- are quoted names, or what a dialect has its own words for; {prefix} is the length of the claims' prefix. Parameters are
-- numbered in the order in which they first appear.

-- name: add_column
-- What a replay keeps of a dead letter beside it.
ALTER TABLE {target} ADD COLUMN {column} {type};

-- name: mine
-- Dead letters that no replay holds, or one of this pipeline.
("replay_claim" IS NULL OR substr("replay_claim", 1, {prefix}) = CAST($1 AS {text}));

-- name: count_by_reason
-- What a replay of this selection would try.
SELECT "reason", count(*) FROM (SELECT "reason" FROM {target} WHERE {chosen} ORDER BY {record}{limit}) AS chosen
 GROUP BY "reason" ORDER BY count(*) DESC, "reason";

-- name: common_reasons
-- For people: the beginnings of the reasons that most dead letters have.
SELECT substr("reason", 1, {reason_max}) AS beginning, count(*) FROM {target} WHERE {chosen}
 GROUP BY beginning ORDER BY count(*) DESC, beginning LIMIT {limit};

-- name: count
-- For people: how many there are.
SELECT count(*) FROM {target} WHERE {chosen};

-- name: examples
-- For people: some dead letters of this selection, whichever are found first, with the beginnings of their values.
SELECT {record}, {timestamp}, substr("reason", 1, {reason_max}), {value}, octet_length("value")
  FROM {target} WHERE {chosen} LIMIT {limit};

-- name: find_double
-- A record with two dead letters: a replay could not tell one from the other.
SELECT {record}, count(*) FROM {target} WHERE {chosen} GROUP BY {record} HAVING count(*) > 1 LIMIT 1;

-- name: release
-- What an earlier replay of this pipeline held is free again.
UPDATE {target} SET "replay_claim" = NULL WHERE substr("replay_claim", 1, {prefix}) = CAST($1 AS {text});

-- name: plan
-- Every chosen dead letter gets its batch: so many dead letters, or so many bytes, make one.
(SELECT {record}, CAST($1 AS {text}) || CAST({after} + dense_rank() OVER (
            ORDER BY before_bytes - before_bytes % {bytes_max}, number - number % {letters_max}) AS {text}) AS claim
   FROM (SELECT {record}, row_number() OVER (ORDER BY {record}) - 1 AS number,
                CAST(sum(size) OVER (ORDER BY {record}) - size AS {whole}) AS before_bytes
           FROM (SELECT {record}, CAST({size} AS {whole}) AS size
                   FROM {target} WHERE {chosen} ORDER BY {record}{limit}) AS chosen) AS numbered) AS planned;

-- name: same_record
-- A dead letter and its place in the plan.
letter."topic" = planned."topic" AND letter."partition" = planned."partition" AND letter."offset" = planned."offset";

-- name: planned
-- The batches that are planned, and how many dead letters each has.
SELECT substr("replay_claim", {prefix} + 1), count(*) FROM {target}
 WHERE substr("replay_claim", 1, {prefix}) = CAST($1 AS {text}) GROUP BY "replay_claim";

-- name: read
-- The dead letters of one batch.
SELECT {columns} FROM {target} WHERE "replay_claim" = $1;

-- name: held_by_reason
-- The dead letters of one batch, locked, so that they are those that are deleted next.
SELECT "reason", count(*) FROM (SELECT "reason" FROM {target} WHERE "replay_claim" = $1{lock}) AS held
 GROUP BY "reason";

-- name: delete
-- They are settled.
DELETE FROM {target} WHERE "replay_claim" = $1;
