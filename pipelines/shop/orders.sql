-- A shop's table of orders, as its changes come from the database (Debezium): orders are placed, corrected, paid, shipped,
-- cancelled. Tables that follow it, and what each hour took, which is told once, when nothing more can change in it.
--
-- Run it:  sqlstream run --drain pipelines/shop/orders.sql
-- and look:  duckdb pipelines/shop/out/shop.duckdb "FROM best_customers"
CREATE TABLE orders (
  id        BIGINT,
  customer  STRING,
  country   STRING,
  status    STRING,
  amount    DECIMAL(10, 2),
  placed_at TIMESTAMP(0),
  PRIMARY KEY (id) NOT ENFORCED,
  -- An order changes for half an hour at most; what comes later goes to the dead letters.
  WATERMARK FOR placed_at AS placed_at - INTERVAL '30' MINUTE
) WITH (
  'connector' = 'filesystem',
  'path' = 'data',
  'format' = 'debezium-json'
);

CREATE TABLE open_orders (
  country STRING,
  status  STRING,
  orders  BIGINT,
  oldest  TIMESTAMP(0),
  amount  DECIMAL(38, 2),
  PRIMARY KEY (country, status) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/shop.duckdb');

CREATE TABLE best_customers (
  country  STRING,
  place    BIGINT,
  customer STRING,
  orders   BIGINT,
  amount   DECIMAL(38, 2),
  PRIMARY KEY (country, place) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/shop.duckdb');

CREATE TABLE hours (
  window_start TIMESTAMP(3),
  country      STRING,
  orders       BIGINT,
  unpaid       BIGINT,
  amount       DECIMAL(38, 2),
  largest      DECIMAL(10, 2)
) WITH ('connector' = 'filesystem', 'path' = 'out/hours', 'format' = 'csv');

EXECUTE STATEMENT SET
BEGIN

INSERT INTO open_orders
SELECT country, status, COUNT(*), MIN(placed_at), SUM(amount)
FROM orders
WHERE status <> 'shipped'
GROUP BY country, status;

INSERT INTO best_customers
SELECT country, place, customer, orders, amount
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY country ORDER BY amount DESC, customer) AS place
  FROM (
    SELECT country, customer, COUNT(*) AS orders, SUM(amount) AS amount
    FROM orders
    GROUP BY country, customer
  )
)
WHERE place <= 3;

INSERT INTO hours
SELECT window_start, country, COUNT(*), COUNT(*) FILTER (WHERE status = 'new'), SUM(amount), MAX(amount)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(placed_at), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, country;

END;
