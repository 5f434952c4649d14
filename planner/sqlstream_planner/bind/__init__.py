"""From syntax trees to the logical plan: names, types, windows; a mistake is reported with its place."""
