"""The versioned state of a shard: immutable files in a checkpoint store, cached in a local RocksDB."""
