"""The dashboard: pipelines as their state directories show them, in a browser. It reads, and changes nothing."""
