"""The documentation: pages in Markdown, and in `site/` the code that builds a site of them."""
