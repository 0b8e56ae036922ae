"""The policies that need no language model."""

import sys
from random import Random

import pytest

from openenv.core import Action, Observation
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openenv.envs.openspiel_env.players import ball_and_paddle
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.policies import LearningPolicy, Policy, RandomPolicy, make_policy, policy_names
from openenv.policies.base import as_action
from openenv.policies.declared import FunctionPolicy
from openenv.text.derived import DerivedText


def play(env: OpenSpielEnvironment, policy: Policy, num_episodes: int, seed: int = 0) -> list[float]:
    """Total rewards; the policy receives the result of each action."""
    totals = []
    for number in range(num_episodes):
        observation, total = env.reset(seed=seed + number, **policy.reset_kwargs), 0.0
        while not observation.done:
            action = policy.select_action(observation)
            following = env.step(OpenSpielAction(action_id=as_action(action).action_id))
            total += float(following.reward or 0)
            policy.learn(observation, action, float(following.reward or 0), following, following.done)
            observation = following
        totals.append(total)
    return totals


def grid(*rows: str) -> OpenSpielObservation:
    """An observation of catch from a drawing."""
    return OpenSpielObservation(
        info_state=[float(cell != ".") for row in rows for cell in row], legal_actions=[0, 1, 2]
    )


def test_random_play_chooses_each_action_equally_often_and_repeats_with_its_seed() -> None:
    observation = grid("..o..", "..x..")
    policy, twin = RandomPolicy(3), RandomPolicy(3)

    chosen = [policy.select_action(observation) for _ in range(3000)]

    assert chosen == twin.select_actions([observation] * 3000)
    assert all(900 < chosen.count(action) < 1100 for action in (0, 1, 2))


def test_stay_stays_and_stand_stands() -> None:
    catch, blackjack = OpenSpielEnvironment("catch").reset(seed=1), OpenSpielEnvironment("blackjack").reset(seed=1)

    assert make_policy("stay").select_action(catch) == 1
    assert make_policy("stay").select_action(grid("..o..", "..x..")) == 1  # no names: number 1
    assert make_policy("always:STAND").select_action(blackjack) == 1
    with pytest.raises(ValueError, match=r"always left: no legal action has that name\. Legal: hit, stand"):
        make_policy("always:left").select_action(blackjack)


def test_always_takes_a_legal_action_that_is_a_text():
    seen = Listed(legal_actions=["open", "up"])
    text = DerivedText.for_environment(Command, Listed, "", [])

    assert make_policy("always:open", text=text).select_action(seen) == Command(command="open")


class Command(Action):
    command: str


class Listed(Observation):
    legal_actions: list[str]


@pytest.mark.parametrize(
    ("rows", "action"),
    [
        (("o....", ".....", "..x.."), 0),
        ((".....", "..o..", "..x.."), 1),
        ((".....", "....o", "..x.."), 2),
        ((".....", ".....", "o.x.."), 0),
        ((".....", ".....", "..x.."), 1),
    ],
)
def test_the_smart_policy_goes_to_the_ball_in_every_row(rows: tuple[str, ...], action: int) -> None:
    assert make_policy("smart").select_action(grid(*rows)) == OpenSpielAction(action_id=action)


def test_the_smart_policy_catches_every_ball() -> None:
    assert play(OpenSpielEnvironment("catch"), make_policy("smart"), 100) == [1.0] * 100


@pytest.mark.parametrize("numbers", [[0.0] * 50, [1.0] * 50, [1.0] * 7, [1.0, 1.0] + [0.0] * 48])
def test_the_smart_policy_refuses_what_is_no_catch(numbers: list[float]) -> None:
    with pytest.raises(ValueError, match="plays catch only"):
        ball_and_paddle(numbers)


def test_the_learner_learns_catch_from_reward_alone() -> None:
    rates = []
    for seed in range(3):
        totals = play(OpenSpielEnvironment("catch"), LearningPolicy(seed), 600, seed=1000 * seed)
        rates.append(sum(total > 0 for total in totals[-200:]) / 200)

    assert min(rates) > 0.9


def test_the_learner_learns_the_opposite_when_rewards_are_turned_around() -> None:
    policy, env = LearningPolicy(0), OpenSpielEnvironment("catch")
    caught = []
    for seed in range(600):
        observation = env.reset(seed=seed)
        while not observation.done:
            action = policy.select_action(observation)
            following = env.step(OpenSpielAction(action_id=action))
            policy.learn(observation, action, -float(following.reward or 0), following, following.done)
            observation = following
        caught.append(observation.reward == 1.0)

    assert sum(caught[-200:]) < 20


def test_the_learner_explores_less_and_less() -> None:
    policy = LearningPolicy(0, half_life=5, min_epsilon=0.02)
    epsilons = []
    for episodes in (0, 5, 45, 10_000):
        policy.episodes = episodes
        epsilons.append(policy.epsilon)

    assert epsilons == [1.0, 0.5, 0.1, 0.02]


def test_the_learner_forgets_an_episode_that_broke_off() -> None:
    policy, start = LearningPolicy(0, min_epsilon=0.0), grid("..o..", "..x..")
    policy.learn(start, 0, 0.0, start, False)
    policy.forget_episode()
    policy.learn(start, 1, 1.0, start, True)

    policy.episodes = 10**9  # no exploration any more
    actions = {policy.select_action(start) for _ in range(20)}
    assert actions == {1}


def test_the_chart_is_the_textbooks() -> None:
    from openenv.envs.openspiel_env.solvers.blackjack_chart import chart_hits

    hard = {
        total: "".join("H" if chart_hits(total, False, d) else "S" for d in "23456789KA") for total in range(11, 18)
    }
    soft = {total: "".join("H" if chart_hits(total, True, d) else "S" for d in "23456789KA") for total in range(17, 20)}

    assert hard == {
        11: "HHHHHHHHHH",
        12: "HHSSSHHHHH",
        13: "SSSSSHHHHH",
        14: "SSSSSHHHHH",
        15: "SSSSSHHHHH",
        16: "SSSSSHHHHH",
        17: "SSSSSSSSSS",
    }
    assert soft == {17: "HHHHHHHHHH", 18: "SSSSSSSHHH", 19: "SSSSSSSSSS"}


def test_the_chart_refuses_another_game() -> None:
    with pytest.raises(ValueError, match="game_name='catch': the chart policy plays blackjack only"):
        make_policy("chart").select_action(OpenSpielEnvironment("catch").reset(seed=1))


def test_tree_search_wins_from_what_a_player_knows() -> None:
    rewards = play(OpenSpielEnvironment("tic_tac_toe"), make_policy("mcts", seed=1), 40)

    assert sum(rewards) >= 36


def test_tree_search_plays_chance_games_and_repeats_with_its_seed() -> None:
    env = OpenSpielEnvironment("catch")

    assert play(env, make_policy("mcts", seed=1), 5) == [1.0] * 5
    assert play(env, make_policy("mcts", seed=1, simulations=2), 8) == play(
        env, make_policy("mcts", seed=1, simulations=2), 8
    )


def test_tree_search_asks_for_the_history_where_there_is_none() -> None:
    with pytest.raises(ValueError, match="reset\\(reveal_history=True\\)"):
        make_policy("mcts").select_action(OpenSpielEnvironment("catch").reset(seed=1))


@pytest.mark.parametrize("name", policy_names())
def test_every_named_policy_can_be_made_and_has_a_name(name: str) -> None:
    assert make_policy(name, seed=1).name


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "smrat",
            {},
            r"policy='smrat' is unknown\. Did you mean 'smart'\? There are: random, stay, learning, smart, ",
        ),
        ("always:", {}, "is unknown"),
        ("random", {"sims": 3}, "policy 'random' does not accept these options: .*sims"),
        ("chart", {"sims": 3}, "policy 'chart' does not accept these options: .*sims"),
    ],
)
def test_a_wrong_name_or_option_is_explained(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_policy(name, seed=1, **options)


def test_no_policy_touches_the_global_generator() -> None:
    import random

    random.seed(1)
    before = random.getstate()
    for name in ("random", "smart", "learning", "mcts"):
        play(OpenSpielEnvironment("catch"), make_policy(name, seed=1), 3)

    assert random.getstate() == before
    assert Random(1).getstate() == before


def test_a_policy_whose_library_is_missing_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "openenv.envs.openspiel_env.solvers.tree_search", raising=False)
    monkeypatch.setitem(sys.modules, "pyspiel", None)

    with pytest.raises(ValueError, match=r"policy 'mcts' needs pyspiel in this process too: .*openspiel"):
        make_policy("mcts")


def test_a_function_is_a_policy_that_repeats_its_choices_with_its_seed() -> None:
    def choose(observation: OpenSpielObservation, rng: Random, most: int = 9) -> int:
        return rng.randint(0, most)

    seen = grid("..o..", "..x..")
    first, second = FunctionPolicy("number", choose, 3), FunctionPolicy("number", choose, 3)

    assert [first.select_action(seen) for _ in range(9)] == [second.select_action(seen) for _ in range(9)]
    assert FunctionPolicy("number", choose, 3, most=0).select_action(seen) == 0
    with pytest.raises(TypeError, match="least"):
        FunctionPolicy("number", choose, least=1)
