"""The model's service as an agent's program sees it: the APIs of OpenAI and Anthropic over any model."""
