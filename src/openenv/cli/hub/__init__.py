"""The commands that put Spaces on the Hugging Face Hub."""
