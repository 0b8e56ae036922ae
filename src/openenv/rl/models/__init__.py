"""The language model: chat template and tokenizer, model and weights, and the generator that samples replies."""
