"""Records are forgotten on request: taken out of all tables, never read again, and gone from the files.

A request says by a condition over a table's columns which records it is about. From there on records are known by their
coordinates (topic, partition, offset): under these each table has the record, whatever its columns are. So the log of
no table names the condition, or a value.

1. The records are looked for in each pipeline: rows of the table; refused records, decoded as a replay would; and what
   the pipeline reads, where rows do not stay (mode upsert) or other pipelines read it too (a bronze table).
2. They are listed, in all pipelines first (see `delta.removals`). From here on no job brings them back, and whoever
   begins the request again, after a kill at any step, finds in the lists what is still to be done.
3. They are taken out: of the tables, their quarantines, the memory of deletes; and of the samples of gates.
4. Rows that deletion vectors only hide are purged; behind the grace a VACUUM deletes the files of older versions.
5. Each object below the tables' places is searched for the values that were named.
"""
