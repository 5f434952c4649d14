"""The site of the documentation: `python -m docs.site FOLDER` builds it (docs/adr/0047-docs-site.md says how)."""
