"""Playing episodes over a real server's sessions."""

import asyncio
import threading
from collections import Counter
from typing import Any, ClassVar

import pytest

from openenv.core.errors import OpenEnvError, ServerUnreachable
from openenv.core.session_pool import SessionPool
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv, OpenSpielText
from openenv.evaluation import EpisodeObserver, EpisodeResult, evaluate, play_episodes, play_random_policy, summarize
from openenv.evaluation.episode_files.recorder import EpisodeRecorder
from openenv.evaluation.episode_files.records import EpisodeSource
from openenv.policies import CompletionFailed, LanguageModelPolicy, LearningPolicy, Policy, make_policy
from openenv.policies.prompts import EndpointReply

BLACKJACK = {"game_name": "blackjack"}


class TheirPolicy:
    """The shape that people's own policies have."""

    name = "theirs"

    def select_action(self, observation: Any) -> int:
        return 2 if 2 in observation.legal_actions else 0


async def play(url: str, policy: Any, num_episodes: int, num_sessions: int = 8, **kwargs: Any) -> list[EpisodeResult]:
    async with SessionPool(OpenSpielEnv, url, num_sessions) as pool:
        return await play_episodes(pool, policy, num_episodes, kwargs.pop("seed", 100), **kwargs)


async def test_episodes_come_in_the_order_of_their_seeds(openspiel_url: str) -> None:
    episodes = await play(openspiel_url, make_policy("smart"), 20)

    assert [episode.seed for episode in episodes] == list(range(100, 120))
    assert {(e.outcome, e.total_reward, e.num_steps) for e in episodes} == {("won", 1.0, 9)}


@pytest.mark.parametrize("num_sessions", [1, 7, 64])
async def test_the_number_of_sessions_changes_nothing(openspiel_url: str, num_sessions: int) -> None:
    episodes = await play(openspiel_url, make_policy("chart"), 50, num_sessions, reset_kwargs=BLACKJACK)

    assert episodes == await play(openspiel_url, make_policy("chart"), 50, 5, reset_kwargs=BLACKJACK)


async def test_peoples_own_policies_play_without_our_base_class(openspiel_url: str) -> None:
    episodes = await play(openspiel_url, TheirPolicy(), 10)

    assert {episode.outcome for episode in episodes} <= {"won", "lost"}


async def test_a_policy_may_answer_with_actions(openspiel_url: str) -> None:
    class Actions(TheirPolicy):
        def select_action(self, observation: Any) -> Any:
            return OpenSpielAction(action_id=1)

    assert {e.num_steps for e in await play(openspiel_url, Actions(), 4)} == {9}


async def test_progress_is_reported_to_the_end(openspiel_url: str) -> None:
    progress: list[tuple[int, int]] = []
    await play(openspiel_url, make_policy("stay"), 20, on_progress=lambda *counts: progress.append(counts))

    assert progress[-1] == (20, 20)
    assert progress == sorted(progress)


async def test_a_reply_without_a_legal_action_forfeits_the_episode(openspiel_url: str) -> None:
    def complete(conversations: list[Any]) -> list[str]:
        return ["stand" if "dealer shows 7" in talk[-1]["content"] else "double" for talk in conversations]

    policy = LanguageModelPolicy("model", OpenSpielText(), complete)
    episodes = await play(openspiel_url, policy, 100, reset_kwargs=BLACKJACK)

    forfeits = [e for e in episodes if e.outcome == "unparseable"]
    assert 80 < len(forfeits) < 100
    assert {(e.num_steps, e.reason) for e in forfeits} == {(0, "'double' names none of: hit, stand")}


async def test_a_reply_that_was_cut_off_is_counted_and_recorded(openspiel_url: str) -> None:
    def complete(conversations: list[Any]) -> list[str]:
        return [EndpointReply("I would stand beca", is_cut_off=True) for _ in conversations]

    recorder = EpisodeRecorder(EpisodeSource(environment="openspiel", policy="model"))
    policy = LanguageModelPolicy("model", OpenSpielText(), complete)
    (episode,) = await play(openspiel_url, policy, 1, reset_kwargs=BLACKJACK, observers=[recorder])

    assert (episode.outcome, episode.num_cut_off_replies) == ("unparseable", 1)
    assert "cut off at the limit of its tokens" in str(episode.reason)
    assert [turn.cut_off for turn in recorder.episodes[0].turns] == [True]


async def test_an_illegal_number_forfeits_too_and_never_reaches_the_server(openspiel_url: str) -> None:
    class Illegal(TheirPolicy):
        def select_action(self, observation: Any) -> int:
            return 9

    episode = (await play(openspiel_url, Illegal(), 1))[0]

    assert (episode.outcome, episode.reason) == (
        "unparseable",
        "action 9 is not among the legal actions [0, 1, 2]",
    )


async def test_a_refused_action_ends_its_episode_alone(openspiel_url: str) -> None:
    class WrongGame(TheirPolicy):
        def select_action(self, observation: Any) -> Any:
            ball_is_left = observation.info_state[0] == 1.0
            return OpenSpielAction(action_id=1, game_name="chess" if ball_is_left else "catch")

    episodes = await play(openspiel_url, WrongGame(), 40)

    refused = [e for e in episodes if e.outcome == "unparseable"]
    assert 0 < len(refused) < 40
    assert all("this session plays 'catch'" in (e.reason or "") for e in refused)
    assert [e.seed for e in episodes] == list(range(100, 140))


async def test_a_refused_reset_is_invalid_too(openspiel_url: str) -> None:
    episodes = await play(openspiel_url, make_policy("random"), 3, reset_kwargs={"game_name": "cach"})

    assert all(e.outcome == "invalid" and "Did you mean 'catch'" in (e.reason or "") for e in episodes)


async def test_an_episode_that_goes_on_too_long_is_stopped_and_its_rewards_so_far_count(openspiel_url: str) -> None:
    episodes = await play(openspiel_url, make_policy("stay"), 2, max_steps=5)

    assert {(e.outcome, e.num_steps, e.reason) for e in episodes} == {("push", 5, "stopped after 5 steps")}
    summary = summarize("stay", episodes)
    assert (summary.num_episodes, summary.num_stopped, summary.num_push) == (2, 2, 2)


async def test_a_learner_plays_in_sequence_and_receives_every_step_of_one_episode_at_a_time(openspiel_url: str) -> None:
    class Listening(LearningPolicy):
        received: list[tuple[Any, bool]]

        def learn(self, observation: Any, action: Any, reward: float, next_observation: Any, done: bool) -> None:
            self.received.append((next_observation.info_state.index(1.0) // 5, done))
            super().learn(observation, action, reward, next_observation, done)

    policy = Listening(1)
    policy.received = []
    await play(openspiel_url, policy, 4, num_sessions=8)

    assert policy.received == [*((row, False) for row in range(1, 9)), (9, True)] * 4


async def test_a_learner_gets_better_over_the_wire(openspiel_url: str) -> None:
    episodes = await play(openspiel_url, LearningPolicy(1), 400)

    won = [episode.outcome == "won" for episode in episodes]
    assert sum(won[-100:]) > 85
    assert sum(won[:20]) < 15


async def test_decisions_are_counted_by_situation(openspiel_url: str) -> None:
    episodes = await play(openspiel_url, make_policy("chart"), 300, reset_kwargs=BLACKJACK, text=OpenSpielText())

    decisions = sum((episode.decisions for episode in episodes), Counter())
    assert decisions["hard 17", "stand"] > 0
    assert decisions["hard 17", "hit"] == 0
    assert decisions["hard 11", "hit"] > 0
    assert decisions.total() == sum(episode.num_steps for episode in episodes)


async def test_a_policy_with_history_receives_each_episode_apart(openspiel_url: str) -> None:
    lengths: list[int] = []

    def complete(conversations: list[Any]) -> list[str]:
        lengths.extend(len(talk) for talk in conversations)
        return ["stay"] * len(conversations)

    policy = LanguageModelPolicy("model", WholeEpisodes(), complete, instructions=False)
    await play(openspiel_url, policy, 6, num_sessions=4)

    assert Counter(lengths) == dict.fromkeys(range(1, 18, 2), 6)
    assert policy.conversations.num_episodes == 0


class WholeEpisodes(OpenSpielText):
    history = "full"


async def test_what_a_model_was_shown_before_it_failed_is_not_in_the_next_evaluation(openspiel_url: str) -> None:
    turns: list[int] = []

    def complete(conversations: list[Any]) -> list[str]:
        turns.append(len(conversations[0]))
        if len(turns) == 2:
            raise CompletionFailed("busy")
        return ["stay"] * len(conversations)

    policy = LanguageModelPolicy("model", WholeEpisodes(), complete, instructions=False)
    failed = await play(openspiel_url, policy, 2)
    await play(openspiel_url, policy, 2)

    assert [(episode.outcome, episode.reason) for episode in failed] == [("invalid", "policy: busy")] * 2
    assert turns == [1, 3, *range(1, 18, 2)]


async def test_an_evaluation_that_is_cancelled_waits_for_the_model_and_forgets_the_episodes(openspiel_url: str) -> None:
    is_asked, may_reply = threading.Event(), threading.Event()

    def complete(conversations: list[Any]) -> list[str]:
        is_asked.set()
        assert may_reply.wait(60)
        return ["stay"] * len(conversations)

    policy = LanguageModelPolicy("model", WholeEpisodes(), complete)
    async with SessionPool(OpenSpielEnv, openspiel_url, 2) as pool:
        playing = asyncio.ensure_future(play_episodes(pool, policy, 2, 100))
        await asyncio.to_thread(is_asked.wait, 60)
        playing.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not playing.done()
        may_reply.set()
        with pytest.raises(asyncio.CancelledError):
            await playing

    assert policy.conversations.num_episodes == 0


async def test_a_learner_forgets_the_episode_that_its_own_error_has_ended(openspiel_url: str) -> None:
    class Interrupted(LearningPolicy):
        num_forgotten = 0

        def select_action(self, observation: Any) -> int:
            if observation.info_state.index(1.0) >= 5:
                raise KeyError("the second row")
            return super().select_action(observation)

        def forget_episode(self) -> None:
            self.num_forgotten += 1
            super().forget_episode()

    policy = Interrupted(1)
    (failed,) = await play(openspiel_url, policy, 1)

    assert policy.num_forgotten == 1
    assert (failed.outcome, failed.reason) == ("invalid", "policy: KeyError: 'the second row'")


async def test_a_policy_that_follows_episodes_needs_to_override_nothing_else(openspiel_url: str) -> None:
    class Following(Policy):
        follows_episodes = True

        def select_action(self, observation: Any) -> int:
            return 1

    assert [episode.num_steps for episode in await play(openspiel_url, Following(), 3)] == [9] * 3


async def test_peoples_own_policies_have_each_optional_part_that_they_define(openspiel_url: str) -> None:
    class Noting(TheirPolicy):
        follows_episodes = True
        ended: ClassVar[list[int]] = []

        def end_episode(self, episode: int) -> None:
            self.ended.append(episode)

    await play(openspiel_url, Noting(), 3)

    assert sorted(Noting.ended) == [0, 1, 2]


async def test_what_a_policy_raises_makes_that_episode_invalid_and_no_other(openspiel_url: str) -> None:
    class Careful(TheirPolicy, Policy):
        def select_action(self, observation: Any) -> int:
            if observation.legal_actions and self.num_chosen == 3:
                self.num_chosen += 1
                raise ConnectionResetError("by the gateway")
            self.num_chosen += 1
            return super().select_action(observation)

        num_chosen = 0

    episodes = await play(openspiel_url, Careful(), 8)

    reasons = [episode.reason for episode in episodes if episode.outcome == "invalid"]
    assert reasons == ["policy: ConnectionResetError: by the gateway"]


async def test_the_errors_of_a_policy_are_logged_once_for_each_reason_and_the_first_is_traced_back(
    openspiel_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Careless(TheirPolicy, Policy):
        num_chosen = 0

        def select_action(self, observation: Any) -> int:
            self.num_chosen += 1
            if self.num_chosen % 3 == 0:
                raise ConnectionResetError(f"by gateway {self.num_chosen % 2}")
            return super().select_action(observation)

    episodes = await play(openspiel_url, Careless(), 12)

    assert sum(episode.outcome == "invalid" for episode in episodes) > 2
    logged = [(record.message[-1], record.exc_info is not None) for record in caplog.records]
    assert logged in ([("0", True), ("1", False)], [("1", True), ("0", False)])


async def test_one_reply_that_could_not_be_had_ends_its_own_episode(openspiel_url: str) -> None:
    def complete(conversations: list[Any]) -> list[str]:
        refused = CompletionFailed("filtered")
        raise CompletionFailed("filtered", [refused, *["stay"] * (len(conversations) - 1)])

    policy = LanguageModelPolicy("model", OpenSpielText(), complete)
    episodes = await play(openspiel_url, policy, 3)

    assert [episode.outcome for episode in episodes[:2]] == ["invalid", "invalid"]
    assert [episode.reason for episode in episodes[:2]] == ["policy: filtered"] * 2


async def test_a_batch_that_the_policy_cannot_answer_makes_its_episodes_invalid(openspiel_url: str) -> None:
    class Batches(TheirPolicy, Policy):
        num_batches = 0

        def select_actions(self, observations: Any, episodes: Any = None) -> list[Any]:
            self.num_batches += 1
            if self.num_batches == 2:
                raise OpenEnvError("the service is down")
            return [self.select_action(observation) for observation in observations]

    episodes = await play(openspiel_url, Batches(), 4, num_sessions=2)

    assert [episode.outcome == "invalid" for episode in episodes] == [True, True, False, False]


async def test_known_episodes_are_not_played_again(openspiel_url: str) -> None:
    whole = await play(openspiel_url, make_policy("smart"), 4)
    steps: list[int] = []

    class Counting(EpisodeObserver):
        def on_end(self, episode: int, result: EpisodeResult) -> None:
            steps.append(episode)

    known = {number: whole[number] for number in (0, 2)}
    again = await play(openspiel_url, make_policy("smart"), 4, known=known, observers=[Counting()])

    assert again == whole
    assert sorted(steps) == [1, 3]


async def test_what_a_policy_raises_from_the_start_is_raised(openspiel_url: str) -> None:
    with pytest.raises(ValueError, match="the chart policy plays blackjack only"):
        await play(openspiel_url, make_policy("chart"), 2)


async def test_no_server_is_an_error_not_a_result() -> None:
    with pytest.raises(ServerUnreachable):
        await play("http://127.0.0.1:9", make_policy("random"), 2)


async def test_a_competition_gives_every_policy_the_same_episodes(openspiel_url: str) -> None:
    policies = [make_policy(name, seed=1) for name in ("random", "stay", "smart", "learning")]
    progress: list[str] = []
    finished: list[str] = []

    summaries = await evaluate(
        openspiel_url,
        OpenSpielEnv,
        policies,
        50,
        seed=5,
        on_progress=lambda name, ended, wanted: progress.append(name),
        on_summary=lambda summary: finished.append(summary.name),
    )

    assert [s.name for s in summaries] == finished == ["random", "always stay", "smart", "learning"]
    assert [s.num_episodes for s in summaries] == [50] * 4
    assert summaries[2].win_rate == 1.0
    assert set(progress) == set(finished)


async def test_the_random_policy_plays_also_where_an_event_loop_runs(openspiel_url: str) -> None:
    stats = play_random_policy(openspiel_url, num_games=200)

    assert list(stats) == ["wins", "losses", "pushes", "win_rate", "total_games"]
    assert stats["wins"] + stats["losses"] + stats["pushes"] == stats["total_games"] == 200
    assert stats["win_rate"] == stats["wins"] / 200
    assert 0.1 < stats["win_rate"] < 0.3
