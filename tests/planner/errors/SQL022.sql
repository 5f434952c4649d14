CREATE TABLE plain (a BIGINT, ts TIMESTAMP(3), st STRING) WITH ('connector' = 'datagen');
SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE plain, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
