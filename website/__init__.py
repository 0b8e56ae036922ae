"""The documentation as a site: `make docs`. Its pages are assembled as Markdown first, which MkDocs then renders."""
