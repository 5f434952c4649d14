"""The format `json-registry`: JSON behind the id of its JSON Schema in Confluent's registry."""
