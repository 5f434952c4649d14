-- Topic to topic, for latency: each bid with its price in another currency.
{% include 'bid.sql' %}

CREATE TABLE passed (
  auction BIGINT,
  price DOUBLE,
  extra STRING
) WITH (
  'connector' = 'kafka',
  'topic' = '{{ var('sink') }}',
  'properties.bootstrap.servers' = '{{ var('brokers') }}',
  'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '{{ var('sink') }}',
  'properties.transaction.timeout.ms' = '600000'
);

INSERT INTO passed SELECT auction, 0.908E0 * price, extra FROM bid WHERE price >= 0;
