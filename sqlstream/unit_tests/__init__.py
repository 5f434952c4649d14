"""Unit tests of pipelines: rows given to the sources in steps, and what sinks and views must have after each.

A file is read (`reading`, on `yaml_nodes` and `fields`) into plain data (`model`). `running` plans the pipeline
(`versions`), types the rows (`typed_rows`), runs every step as a run of the epoch loop over tables in memory
(`memory`, `connectors`), and compares (`checks`). `parallel` runs many; `report`, `junit` show what came out.
"""
