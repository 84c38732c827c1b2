-- The runs in the order of their start, each with its peak and the range of the runs before it in its
-- history: those of the same workload, on as many ranks and the same kind of device. A workload is the
-- tag of this name, or the command line; a run with neither has no history. A change is outside the
-- range by 1 % of its nearer end and 1 MiB.
with
  ordered as (
    select
      coalesce(json_extract_string(tags, '$.workload'), command) as workload,
      run, commit, started_ns, ranks, world_size, device, peak_bytes, peak_rank, ooms, headroom_bytes
    from runs
  ),
  ranges as (
    select *,
      min(peak_bytes) over before as least_bytes,
      max(peak_bytes) over before as most_bytes,
      count(*) over before as runs_before
    from ordered
    window before as (
      partition by workload, world_size, device, if(workload = '', run, '')
      order by started_ns, run rows between {last} preceding and 1 preceding
    )
  ),
  judged as (
    select *, case
      when runs_before = 0 then 0
      when peak_bytes > most_bytes + greatest(1048576, 0.01 * most_bytes) then peak_bytes - most_bytes
      when peak_bytes < least_bytes - greatest(1048576, 0.01 * least_bytes) then peak_bytes - least_bytes
      else 0
    end as change_bytes
    from ranges
  )
select * from judged order by started_ns, run;
