-- golden: none
-- Orders of one topic and their payments of another, within ten minutes of each other: what was paid per minute and
-- country goes to a topic, what each customer has paid to a table. docs/kafka.md walks through it.

CREATE TABLE orders (
  order_id BIGINT,
  customer STRING,
  country STRING,
  ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = '{{ var("broker", "localhost:9092") }}',
  'properties.group.id' = 'revenue',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE payments (
  order_id BIGINT,
  amount DECIMAL(10, 2),
  paid_at TIMESTAMP(3),
  WATERMARK FOR paid_at AS paid_at - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'payments',
  'properties.bootstrap.servers' = '{{ var("broker", "localhost:9092") }}',
  'properties.group.id' = 'revenue',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE revenue (
  window_start TIMESTAMP(3),
  country STRING,
  payments BIGINT,
  amount DECIMAL(12, 2)
) WITH (
  'connector' = 'kafka',
  'topic' = 'revenue',
  'properties.bootstrap.servers' = '{{ var("broker", "localhost:9092") }}',
  'key.format' = 'json',
  'key.fields' = 'country',
  'value.format' = 'json'
);

CREATE TABLE customers (
  customer STRING,
  payments BIGINT,
  amount DECIMAL(12, 2),
  PRIMARY KEY (customer) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = 'out/shop.duckdb');

CREATE VIEW paid AS
SELECT o.customer, o.country, p.amount, p.paid_at
FROM orders AS o
JOIN payments AS p ON p.order_id = o.order_id
  AND p.paid_at BETWEEN o.ordered_at AND o.ordered_at + INTERVAL '10' MINUTE;

EXECUTE STATEMENT SET BEGIN
INSERT INTO revenue
SELECT window_start, country, COUNT(*), CAST(SUM(amount) AS DECIMAL(12, 2))
FROM TABLE(TUMBLE(TABLE paid, DESCRIPTOR(paid_at), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, country;

INSERT INTO customers
SELECT customer, COUNT(*), CAST(SUM(amount) AS DECIMAL(12, 2)) FROM paid GROUP BY customer;
END;
