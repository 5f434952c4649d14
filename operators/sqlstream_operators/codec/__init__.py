"""Values as bytes and as Arrow: keys, rows, sort columns, and the blobs of exchanges."""
