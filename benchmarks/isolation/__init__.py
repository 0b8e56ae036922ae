"""What isolation costs."""
