CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'json');
SELECT a FROM t;
