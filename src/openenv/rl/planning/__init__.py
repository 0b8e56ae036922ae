"""What is known of a run before it starts: the memory that it needs, and the file that describes it."""
