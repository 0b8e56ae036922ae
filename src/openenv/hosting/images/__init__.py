"""Container images, which are built from Dockerfiles."""
