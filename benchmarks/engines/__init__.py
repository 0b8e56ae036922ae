"""The engine on Ray beside the embedded one: episodes a second, and the processor time of each process."""
