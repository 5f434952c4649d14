{#- The options of a topic that is written exactly once. -#}
'topic' = '{{ var('sink') }}',
  'properties.bootstrap.servers' = '{{ var('brokers') }}',
  'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '{{ var('sink') }}',
  'properties.transaction.timeout.ms' = '600000',
