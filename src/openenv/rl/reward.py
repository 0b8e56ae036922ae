"""What an episode is worth: any callable from a finished trajectory to a number; here the default one."""

from collections.abc import Callable

from openenv.rl.config import RewardConfig
from openenv.rl.trajectory import Trajectory

Reward = Callable[[Trajectory], float]


class OutcomeReward:
    """Win, push and loss by the sign of the game's return, and a price for replies that name no legal action."""

    def __init__(self, config: RewardConfig | None = None) -> None:
        self.config = config or RewardConfig()

    def __call__(self, trajectory: Trajectory) -> float:
        """The reward of a finished, valid episode."""
        if trajectory.outcome == "unparseable":
            return self.config.unparseable
        return self.of_return(trajectory.game_return)

    def of_return(self, game_return: float) -> float:
        """The reward of an episode with this return."""
        config = self.config
        return config.win if game_return > 0 else config.loss if game_return < 0 else config.push


class BlackJackReward(OutcomeReward):
    """The tutorial's name for the default reward: 2.0 for a win, 0.5 for a push, -1.0 for a loss."""

    def evaluate_response(self, prompt: str, response: str, game_reward: float) -> float:
        """The reward of the game that `response` belongs to; its wording does not matter, only how the game ended."""
        return self.of_return(float(game_reward))
