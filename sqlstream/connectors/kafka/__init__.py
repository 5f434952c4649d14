"""The `kafka` connector: topics as tables, with Flink's options; what `upsert-kafka` shares is here, too."""
