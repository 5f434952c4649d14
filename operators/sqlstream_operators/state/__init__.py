"""The versioned store of a shard's state: immutable files in a checkpoint store, RocksDB as a local cache of them."""
