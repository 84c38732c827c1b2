-- One of the tables steps, peaks and findings, without what a newer part replaces.
create or replace view {table} as
select of_table.* exclude (filename)
from read_parquet({files}, union_by_name = true, filename = true, hive_partitioning = false) as of_table
semi join ranks
  on of_table.run = ranks.run and of_table.rank = ranks.rank and part_of(filename) = ranks.part;
