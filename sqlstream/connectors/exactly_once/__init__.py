"""Sinks whose target keeps the number of its last epoch in a transaction of its own: tables, later topics and lakes.

A connector of this kind writes two things and gets the rest from here:

- a `Target` (`target.py`): open a transaction, read and write the committed epoch in it, apply an epoch's rows, commit;
- a factory whose `sink` is `ExactlyOnceSink(spec, context, target)` and whose `writer` is `StagingWriter(spec, context)`.

The steps of an epoch, and what is done if everything dies after one of them:

1. *staged*: tasks keep their rows in the checkpoint store and report names (`StagingWriter`). The next run does the
   epoch again: the same rows have the same names, others are swept.
2. *applied*: before the manifest the driver reads them in batches of bounded size (`StagedEpoch`) and applies them, with
   the epoch's number, in a transaction that it leaves open (`ExactlyOnceSink.prepare`). Whatever the target refuses, it
   refuses while the epoch can still be given up. The transaction dies with the driver.
3. *manifest*: it names the staged files; from here on the epoch has happened. The next run finds the epoch in the
   manifest and not in the target, and applies it again.
4. *committed* in the target: the next run finds the epoch in the target, and does nothing.
5. *collected*: the files go when their manifest is no longer retained.

A target that takes long for a large epoch (`TargetBehind`) may be given it behind the manifest, while the next epoch is
computed: then step 2 only checks that the target is at the epoch before, and what it refuses ends the run in step 4. The
next run applies the epoch again, as after a death there.

No step has all rows of an epoch in the driver's memory: what must be put together (a row may come in one part and
go in another) is put together by the target, or by DuckDB, which spills to disk.
"""
