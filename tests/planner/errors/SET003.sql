SET 'table.exec.emit.early-fire.enabled' = 'true';
CREATE TABLE plain (a BIGINT, ts TIMESTAMP(3), st STRING) WITH ('connector' = 'datagen');
SELECT a FROM plain;
