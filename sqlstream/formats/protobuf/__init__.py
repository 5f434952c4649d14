"""Records of Protocol Buffers, by Google's library: a message is an object of its C core, read field by field."""
