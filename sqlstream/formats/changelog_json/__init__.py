"""Changes as JSON messages: debezium-json, changelog-json, canal-json, maxwell-json."""
