-- Topic to topic, for latency: each bid with its price in another currency.
{% include 'bid.sql' %}

CREATE TABLE passed (
  auction BIGINT,
  price DOUBLE,
  extra STRING
) WITH (
  'connector' = 'kafka',
  {% include 'written_once.sql' %}
  'format' = 'json'
);

INSERT INTO passed SELECT auction, 0.908E0 * price, extra FROM bid WHERE price >= 0;
