"""What one configuration learns in many environments."""
