"""Where models come from, beside the folders and hubs of transformers."""
