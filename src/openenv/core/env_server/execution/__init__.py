"""Where environment code runs: event loop, thread, or process, each with its time limit."""
