-- The same site is in the files of all ranks and runs that have it.
create or replace view sites as
select distinct on (site) * from read_parquet({files}, union_by_name = true, hive_partitioning = false);
