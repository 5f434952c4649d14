-- golden: none
-- Orders as files, their customers in PostgreSQL: each sale goes to an Iceberg table, what each city has bought to a Delta
-- table. docs/lakehouse.md walks through it.

CREATE TABLE orders (
  order_id BIGINT,
  customer STRING,
  amount DECIMAL(10, 2),
  ordered_at TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = 'data/orders', 'format' = 'json', 'source.monitor-interval' = '500 ms');

CREATE TABLE customers (
  customer STRING,
  city STRING,
  PRIMARY KEY (customer) NOT ENFORCED
) WITH (
  'connector' = 'postgres-cdc',
  'url' = '{{ var("shop", "postgresql://localhost:5432/shop") }}',
  'slot.name' = 'sales'
);

CREATE TABLE sales (
  order_id BIGINT,
  customer STRING,
  amount DECIMAL(10, 2),
  day DATE
) PARTITIONED BY (day)
WITH (
  'connector' = 'iceberg',
  'catalog-type' = 'sql',
  'uri' = 'sqlite:///tables/catalog.db',
  'warehouse' = 'tables',
  'catalog-database' = 'shop'
);

CREATE TABLE cities (
  city STRING,
  orders BIGINT,
  amount DECIMAL(12, 2),
  PRIMARY KEY (city) NOT ENFORCED
) WITH ('connector' = 'delta', 'table-path' = 'tables/cities');

EXECUTE STATEMENT SET BEGIN
INSERT INTO sales
SELECT order_id, customer, amount, CAST(ordered_at AS DATE) FROM orders;

INSERT INTO cities
SELECT c.city, COUNT(*), CAST(SUM(o.amount) AS DECIMAL(12, 2))
FROM orders AS o
JOIN customers AS c ON o.customer = c.customer
GROUP BY c.city;
END;
