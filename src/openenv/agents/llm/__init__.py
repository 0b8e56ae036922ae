"""HTTP clients of language models, and the forms of their messages."""
