"""The pages of the bundled environments, each from its manifest, its classes, and its README."""
