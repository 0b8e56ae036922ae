"""The playable games, what they need to be reset, and random play in this process, for tests to compare."""

from random import Random
from typing import Any

from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.openspiel_env.server.episode import Episode, play_until_agent, start_episode
from openenv.envs.openspiel_env.server.games import GAMES_WITH_PARAMETERS, load_game, tasks
from openenv.envs.openspiel_env.server.prepared_game import GameChoice, prepare_game
from openenv.envs.openspiel_env.server.rng import make_rng

REFUSED = {"crossword", "mfg_crowd_modelling", "mfg_crowd_modelling_2d", "mfg_dynamic_routing", "mfg_garnet"}
"""Mean-field games, and one without numbered actions."""

NEED_A_FILE = {
    "efg_game": 'EFG 2 R "Guess" { "A" "B" }\np "" 1 1 "" { "l" "r" } 0\np "" 2 1 "" { "L" "R" } 0\n'
    't "" 1 "" { 1 -1 }\nt "" 2 "" { -1 1 }\np "" 2 1 "" { "L" "R" } 0\nt "" 3 "" { -1 1 }\nt "" 4 "" { 1 -1 }\n',
    "nfg_game": 'NFG 1 R "Pennies" { "A" "B" } { 2 2 }\n1 -1 -1 1 -1 1 1 -1\n',
}
GAMES = list(tasks())


def choice_of(game: str, seed: int) -> dict[str, Any]:
    """The reset keywords of a game. The agent's seat changes with the seed."""
    params = GAMES_WITH_PARAMETERS.get(game, {})
    return {
        "game_name": game,
        "game_params": params,
        "agent_player": seed % load_game(game, params).num_players(),
    }


def first_decision(choice: GameChoice, seed: int) -> Episode:
    """Return the episode that `OpenSpielEnvironment.reset(seed)` starts, with the state that only the server sees."""
    rng = make_rng(seed)
    episode = start_episode(prepare_game(choice, rng), rng, seed)
    play_until_agent(episode)
    return episode


def random_episode(env: OpenSpielEnvironment, seed: int, **reset_kwargs: Any) -> list[OpenSpielObservation]:
    """Return all observations of an episode in which the agent also plays at random from `seed`."""
    rng = Random(seed)
    observations = [env.reset(seed=seed, **reset_kwargs)]
    while not observations[-1].done:
        action_id = rng.choice(observations[-1].legal_actions)
        observations.append(env.step(OpenSpielAction(action_id=action_id)))
    return observations


def play(env: OpenSpielEnvironment, observation: OpenSpielObservation, *action_ids: int) -> OpenSpielObservation:
    """Return the observation after the actions."""
    for action_id in action_ids:
        observation = env.step(OpenSpielAction(action_id=action_id))
    return observation
