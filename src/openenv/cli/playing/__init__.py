"""Commands that play episodes and use what was recorded of them: eval, show, replay, export."""
