"""Container images: built from a Dockerfile, or from the files of this machine's Python."""
