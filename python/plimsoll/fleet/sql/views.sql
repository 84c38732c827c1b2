-- The tables of a fleet, of the files that are listed. Files that overlap (a recording that was
-- added again, or joined files next to their sources) count once: for each rank, the one added last.
-- `others` has the recordings of the rank that were added simultaneously, so that no --replace chose.
create or replace macro part_of(path) as regexp_extract(path, '([^/]+/[^/]+)\.parquet$', 1);

create or replace table ranks as
with
  added as (
    select * exclude (filename), part_of(filename) as part
    from read_parquet({files}, union_by_name = true, filename = true, hive_partitioning = false)
    union all by name select null::varchar as replaces where false  -- files that lack it
  ),
  newest as (
    select * from added
    qualify row_number() over (partition by run, rank order by added_ns desc, part desc) = 1
  ),
  rivals as (
    select newest.run, newest.rank, list_sort(list(distinct added.path)) as others
    from newest join added on
      added.run = newest.run and added.rank = newest.rank and added.identity != newest.identity
      and not contains(coalesce(newest.replaces, ''), added.identity)
    group by all
  )
select newest.*, coalesce(others, []) as others from newest left join rivals using (run, rank);

create or replace view runs as
select
  run,
  min(commit) as commit,
  min(tags) as tags,
  min(started_ns) as started_ns,
  min(added_ns) as added_ns,
  count(*) as ranks,
  greatest(max(world_size), max(rank) + 1) as world_size,
  max(steps) as steps,
  max(peak_bytes) as peak_bytes,
  median(peak_bytes)::bigint as median_peak_bytes,
  (list(rank order by peak_bytes desc, rank))[1] as peak_rank,
  min(capacity_bytes::bigint - greatest(used_bytes::bigint, reserved_bytes)) as headroom_bytes,
  sum(ooms) as ooms,
  regexp_replace(min(device), ':.*', '') as device,
  min(command) as command,
  min(torch) as torch
from ranks
group by run;
