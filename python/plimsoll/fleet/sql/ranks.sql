-- The ranks of a run, each with the figures of its group: the ranks at the same coordinates but dp
-- and cp, with the same layers. A rank differs if its peak is at least 1 MiB, and more than 6 standard
-- deviations plus 1 % of the median, away from the median. The deviation is estimated from the median
-- absolute deviation. Of two ranks, the higher one differs if it is more than 10 % higher.
with
  of_run as (
    select *, dense_rank() over (order by device like 'cpu%', pp, ep, tp, role) - 1 as "group"
    from ranks where run = $run
  ),
  medians as (
    select
      "group",
      count(*) as members,
      case when count(*) = 2 then min(peak_bytes) else median(peak_bytes)::bigint end as usual_bytes
    from of_run
    group by "group"
  ),
  deviations as (
    select "group", 1.4826 * median(abs(peak_bytes - usual_bytes)) as deviation_bytes
    from of_run join medians using ("group")
    group by "group"
  )
select
  rank, dp, tp, pp, ep, cp, host, device, path, "group", members, usual_bytes,
  peak_bytes,
  peak_bytes - usual_bytes as difference_bytes,
  members > 1 and abs(peak_bytes - usual_bytes) >= 1048576
    and abs(peak_bytes - usual_bytes) > case
      when members = 2 then 0.1 * usual_bytes
      else 0.01 * usual_bytes + 6 * deviation_bytes
    end as differs,
  capacity_bytes,
  capacity_bytes::bigint - greatest(used_bytes::bigint, reserved_bytes) as headroom_bytes,
  unused_bytes, peak_step, peak_phase, peak_layer, steps, process_bytes,
  ooms, oom_time_ns, oom_request_bytes, oom_cause, incomplete, others
from of_run join medians using ("group") join deviations using ("group")
order by ooms > 0 desc, oom_time_ns nulls last, differs desc, abs(difference_bytes) desc, rank;
