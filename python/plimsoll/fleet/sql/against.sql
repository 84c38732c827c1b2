-- What is live at the peaks of two runs, by {key}: the median of the ranks of each.
with
  counted as (select run, count(*) as ranks from ranks where run in ($run, $against) group by run),
  rows as (
    select run, rank, {key} as key, min(place) as place, sum(bytes) as bytes
    from peaks join sites using (site) join ranks using (run, rank, device)
    where point = 'peak' and run in ($run, $against)
    group by all
  ),
  usual as (
    select run, key, min(place) as place,
      list_aggregate(list_resize(list(bytes), any_value(ranks), 0), 'median') as bytes
    from rows join counted using (run)
    group by run, key
  )
select coalesce(b.key, a.key) as key, coalesce(a.place, b.place) as place,
  coalesce(b.bytes, 0)::bigint as before_bytes, coalesce(a.bytes, 0)::bigint as bytes,
  (coalesce(a.bytes, 0) - coalesce(b.bytes, 0))::bigint as difference_bytes
from (select * from usual where run = $run) as a
full join (select * from usual where run = $against) as b on a.key = b.key
where difference_bytes != 0
order by abs(difference_bytes) desc, key;
