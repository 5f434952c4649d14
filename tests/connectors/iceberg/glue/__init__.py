"""Tables of AWS Glue."""
