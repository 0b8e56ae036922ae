"""What the pages of a server cost."""
