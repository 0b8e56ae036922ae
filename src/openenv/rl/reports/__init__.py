"""What a run writes: metrics, evaluation results, and the HTML report with its charts."""
