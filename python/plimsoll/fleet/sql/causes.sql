-- What is live at the peak of one rank compared with the median of its group, by {key}.
with
  rows as (
    select rank, {key} as key, min(place) as place, min(example_layer) as example_layer,
      sum(bytes) as bytes
    from peaks join sites using (site) join ranks using (run, rank, device)
    where run = $run and point = 'peak' and rank in (select unnest($members))
    group by all
  ),
  usual as (
    -- A rank without the key has 0 bytes of it.
    select key, min(place) as place, min(example_layer) as example_layer,
      case
        when len($members) = 2 then sum(bytes) filter (rank != $rank)
        else list_aggregate(list_resize(list(bytes), len($members), 0), 'median')
      end as bytes
    from rows group by key
  )
select usual.key, usual.place, usual.example_layer,
  coalesce(rows.bytes, 0)::bigint as bytes,
  coalesce(usual.bytes, 0)::bigint as usual_bytes,
  (coalesce(rows.bytes, 0) - coalesce(usual.bytes, 0))::bigint as difference_bytes
from usual left join rows on rows.key = usual.key and rows.rank = $rank
where difference_bytes != 0
order by abs(difference_bytes) desc, usual.key;
