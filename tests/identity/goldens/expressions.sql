i4
42
007
1.50
.5
1E5
-1
'it''s'
x'FF'
TRUE
NULL
INTERVAL '1:30' MINUTE TO SECOND
INTERVAL '2' MONTH
INTERVAL (i4) DAY
i4 = 1
i4 > i8
i4 <> 1
i4 IS DISTINCT FROM i8
i4 IS NOT DISTINCT FROM i8
NOT (i4 < 1 AND vc = 'a' OR bo)
bo AND (i4 = 1 OR i8 = 2) AND i4 = 1
NOT NOT i4
i4 BETWEEN 1 AND 5
i8 BETWEEN i4 AND db
i4 BETWEEN SYMMETRIC 1 AND 5
i4 IN (1)
i4 NOT IN (3, 1, 2, 1)
(i4, i8) IN ((1, 2), (3, 4))
i4 IS NOT NULL
bo IS NOT TRUE
bo IS UNKNOWN
vc LIKE 'a%'
vc NOT ILIKE 'a!%' ESCAPE '!'
vc SIMILAR TO 'a%'
vc SIMILAR TO 'ab'
vc ~ 'a'
vc !~* 'a'
vc GLOB 'a*'
vc IS JSON
vc IS NOT JSON
i4 = ANY(li)
i4 + i8
li + l8
i4 - 1
i4 * 2
i4 / 2
i4 // 2
i4 % 2
i4 ** 2
-i4
~i4
@i4
i4 & 3
i4 | 3
xor(i4, 3)
i4 << 2
vc || 'a' || 'b'
(db + fl) + i4
db + (fl + i4)
CAST(i4 AS DECIMAL(10, 2))
vc::TIMESTAMP_LTZ(6)
TRY_CAST(vc AS INTEGER)
CAST(st AS ROW<a BIGINT, b STRING>)
CAST(vc AS MAP<STRING, ARRAY<INT>>)
DATE '2020-01-01'
TIMESTAMP '2020-01-01 10:00:00'
CASE WHEN i4 = 1 THEN 'a' WHEN bo THEN 'b' END
CASE i4 WHEN 1 THEN 'a' ELSE 'b' END
IF(bo, 1, 2)
COALESCE(i4, i8, 0)
NVL(i4, 0)
NVL2(i4, 1, 2)
NULLIF(i4, 0)
EXTRACT(YEAR FROM da)
ts AT TIME ZONE 'UTC'
(st).a
st['a']
li[1]
li[i4]
li[-1]
li[2:]
ll[1][2]
mp['a']
[1, i4]
{'a': 1, 'b': i4}
NAMED_STRUCT('a', 1)
MAP['a', 1]
(i4, i8)
ROW(i4, i8)
list_transform(li, x -> x + i4)
list_reduce(li, (a, b) -> a + b)
list_transform(ll, x -> list_filter(x, (y, i) -> y > i AND len(x) > 1))
ARRAY_DISTINCT(li)
CARDINALITY(li)
POSITION('a' IN vc)
SUBSTRING(vc FROM 2 FOR 3)
TRIM(LEADING 'x' FROM vc)
OVERLAY(vc PLACING 'b' FROM 2)
CONCAT(vc, 'a')
SPLIT_INDEX(vc, ',', 0)
REGEXP_REPLACE(vc, '(a)', '$1')
UPPER(lcase(vc))
LOG(db)
LOG(2, db)
DATE_FORMAT(ts, 'yyyy-MM-dd')
TO_TIMESTAMP(vc)
TO_TIMESTAMP(vc, 'yyyy-MM-dd')
FLOOR(ts TO HOUR)
FLOOR(db)
CEIL(da TO MONTH)
TIMESTAMPADD(DAY, 1, ts)
TIMESTAMPDIFF(HOUR, ts, ts)
DAYOFWEEK(da)
JSON_VALUE(vc, '$.a' RETURNING INT)
vc ->> '$.a'
COUNT(*)
COUNT(DISTINCT i4)
SUM(NVL(i4, 0)) FILTER (WHERE i8 > 1)
LISTAGG(vc, ';' ORDER BY i4 DESC NULLS LAST)
PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY db)
MAX_BY(vc, i4)
