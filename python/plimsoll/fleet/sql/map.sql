-- The peak of each rank and column of a run, on the device of the rank's peak. A column is a step, or
-- so many that there are at most {cells} peaks.
with
  found as (
    select rank, step, steps.peak_bytes, steps.steps, ranks.steps as complete_steps
    from steps join ranks using (run, rank, device)
    where run = $run
  ),
  spans as (
    select
      min(step) as first,
      greatest(1, ceil((max(step) - min(step) + 1) * count(distinct rank) / {cells}))::bigint as each
    from found
  )
select
  rank,
  first + (step - first) // each * each as first_step,
  each,
  max(peak_bytes) as peak_bytes,
  -- The last row of a rank may be what follows its last step.
  sum(sum(steps)) over (partition by rank) > any_value(complete_steps) as has_rest
from found, spans
group by rank, first_step, each
order by rank, first_step;
