-- The findings of a run's ranks, each once, with the number of ranks that have it.
select id, severity, count(distinct rank) as ranks, min(rank) as example_rank,
  (list(title order by saving_bytes desc, rank))[1] as title,
  (list(next_step order by saving_bytes desc, rank))[1] as next_step,
  max(saving_bytes) as saving_bytes
from findings
where run = $run
group by id, severity
order by case severity when 'critical' then 0 when 'warning' then 1 else 2 end, ranks desc, id;
