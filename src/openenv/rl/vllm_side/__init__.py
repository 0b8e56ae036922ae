"""What runs in vLLM's own process and environment, which needs no openenv: `openenv_vllm.py`."""
