"""Each stateful operator as the plan has it: its spec, its state schema, and the SQL of what crosses the exchange."""
