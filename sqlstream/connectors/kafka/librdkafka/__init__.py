"""librdkafka through its C API: batches of records are Arrow arrays both ways, without a Python object per record."""
