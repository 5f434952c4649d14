{#
  What q15, q16 and q17 count: of all bids, and of those in three ranges of price. Nine DISTINCT counts are two pieces
  of state, one over bidders and one over auctions.
#}
{%- set ranges = {
  'rank1': 'price < 10000',
  'rank2': 'price >= 10000 AND price < 1000000',
  'rank3': 'price >= 1000000'
} %}
{%- macro count_columns(what) %}total_{{ what }} BIGINT{% for name in ranges %}, {{ name }}_{{ what }} BIGINT{% endfor %}{% endmacro %}
{%- macro counts(what, counted='*') %}
  COUNT({{ counted }}) AS total_{{ what }}
  {%- for name, condition in ranges.items() %},
  COUNT({{ counted }}) FILTER (WHERE {{ condition }}) AS {{ name }}_{{ what }}
  {%- endfor %}
{%- endmacro %}
