"""A solver of the calendar tasks."""
