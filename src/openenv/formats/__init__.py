"""The text formats that are read and written: strict JSON, JSON lines, and strict YAML."""
