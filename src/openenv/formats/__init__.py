"""The formats that are read and written: strict JSON, JSON lines, strict YAML, and images as PNG files."""
