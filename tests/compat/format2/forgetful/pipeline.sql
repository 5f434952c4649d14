SET 'table.exec.state.ttl' = '1 h';
CREATE TABLE t (n INT, k INT) WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');
CREATE TABLE seen WITH ('connector' = 'blackhole') AS SELECT DISTINCT k FROM t;
