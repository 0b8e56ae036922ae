"""Parts of the language model clients in `openenv.core.llm_client`: HTTP requests and message formats."""
