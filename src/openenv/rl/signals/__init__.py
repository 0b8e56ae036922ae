"""Signs in the metrics of a run: a collapse of the policy, an exploited reward."""
