{% include 'missing.sql' %}
SELECT 1;
