CREATE TABLE bid (
  auction BIGINT,
  bidder BIGINT,
  price BIGINT,
  channel STRING,
  url STRING,
  `dateTime` TIMESTAMP(3),
  extra STRING,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = '{{ var('source') }}',
  'properties.bootstrap.servers' = '{{ var('brokers') }}',
  'scan.startup.mode' = 'earliest-offset',
{%- if not var('watched', '') %}
  'scan.bounded.mode' = 'latest-offset',
{%- endif %}
  'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601'
);
