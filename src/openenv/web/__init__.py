"""The page at `/web`: a person plays an environment, and watches sessions."""
