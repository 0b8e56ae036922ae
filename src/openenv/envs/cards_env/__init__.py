"""Card games of RLCard from one seat: UNO, poker, gin rummy, blackjack, Dou Dizhu and mahjong."""

from openenv.envs.cards_env.client import CardsEnv
from openenv.envs.cards_env.models import CardsAction, CardsObservation, CardsState
from openenv.envs.cards_env.text import CardsText

__all__ = ["CardsAction", "CardsEnv", "CardsObservation", "CardsState", "CardsText"]
