"""The page at `/web`: a person plays an environment, and watches sessions."""

PAGE_VARIABLE = "ENABLE_WEB_INTERFACE"
