"""Recorded episodes as Minari datasets, read back by Minari."""

from pathlib import Path
from typing import Any

import gymnasium.spaces as spaces
import minari
import numpy as np
import pytest

from openenv.evaluation.episode_files.records import RecordedEpisode
from openenv.integrations.data import export_episodes, load_episodes
from openenv.integrations.data.minari import NotExpressible, write_dataset
from tests.integrations.data.conftest import played
from tests.integrations_table import Record

pytestmark = pytest.mark.process


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`minari.load_dataset`, for datasets in the test's folder."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return minari.load_dataset


def equal_to_recorded(dataset: Any, episodes: list[RecordedEpisode], field: str, action: str) -> None:
    """Each episode of a dataset with one field of observations and one of actions is what was recorded."""
    assert dataset.total_episodes == len(episodes)
    for read, episode in zip(dataset.iterate_episodes(), episodes, strict=True):
        seen = [*(turn.observation for turn in episode.steps), episode.final_observation]
        np.testing.assert_array_equal(read.observations, [one[field] for one in seen])
        np.testing.assert_array_equal(read.actions, [turn.action[action] for turn in episode.steps])
        np.testing.assert_array_equal(read.rewards, [turn.reward or 0.0 for turn in episode.steps])
        assert list(read.terminations | read.truncations) == [*[False] * (len(episode.steps) - 1), True]
        assert dataset.action_space.contains(read.actions[0])
    metadata = dataset.storage.get_episode_metadata(range(len(episodes)))
    assert [one["seed"] for one in metadata] == [episode.seed for episode in episodes]


@pytest.mark.integration("data", "episodes of blackjack to Minari, and back", package="minari")
def test_what_minari_reads_back_equals_what_was_recorded(
    blackjack: list[RecordedEpisode], tmp_path: Path, load: Any, record_property: Record
) -> None:
    export_episodes(blackjack, "minari", tmp_path / "blackjack-v0", fields=["info_state"])

    dataset = load("blackjack-v0")
    record_property("figure", f"{dataset.total_steps} steps equal")
    equal_to_recorded(dataset, blackjack, "info_state", "action_id")
    assert dataset.observation_space.shape == (189,)
    assert dataset.storage.metadata["algorithm_name"] == "chart, random"


@pytest.mark.integration(
    "data", "episodes of guess (texts) and CartPole (arrays) to Minari, and back", package="minari"
)
def test_texts_and_arrays_read_back(tmp_path: Path, load: Any, record_property: Record) -> None:
    guess = load_episodes(played(tmp_path / "a", "guess", "--policy", "random", "--episodes", "5"))
    export_episodes(guess, "minari", tmp_path / "guess-v1")
    cart = load_episodes(played(tmp_path / "b", "gymnasium", "--policy", "random", "--episodes", "3"))
    export_episodes(cart, "minari", tmp_path / "cart-v0", fields=["value"])
    words, arrays = load("guess-v1"), load("cart-v0")

    record_property("figure", f"{words.total_steps + arrays.total_steps} steps equal")
    equal_to_recorded(words, guess, "word", "number")
    equal_to_recorded(arrays, cart, "value", "value")
    assert arrays.observation_space.shape == (4,)
    assert isinstance(words.observation_space, spaces.Text)
    assert all(words.observation_space.contains(word) for word in words[0].observations)


def test_several_fields_are_a_dictionary(blackjack: list[RecordedEpisode], tmp_path: Path, load: Any) -> None:
    fields = ["info_state", "game_phase", "current_player_id"]
    write_dataset(blackjack, tmp_path / "several-v0", fields=fields)

    dataset = load("several-v0")
    assert set(dataset.observation_space.spaces) == set(fields)
    for read, episode in zip(dataset.iterate_episodes(), blackjack, strict=True):
        seen = [*(turn.observation for turn in episode.steps), episode.final_observation]
        for field in fields:
            np.testing.assert_array_equal(read.observations[field], [one[field] for one in seen])


def test_fields_without_a_space_are_named_with_the_remedy(
    blackjack: list[RecordedEpisode], called: list[RecordedEpisode], tmp_path: Path
) -> None:
    with pytest.raises(NotExpressible, match=r"observation\.legal_actions.*several lengths.*--fields"):
        write_dataset(blackjack, tmp_path / "all-v0")
    with pytest.raises(NotExpressible, match=r"observation\.opponent_last_action.*null"):
        write_dataset(blackjack, tmp_path / "none-v0", fields=["opponent_last_action"])
    with pytest.raises(NotExpressible, match=r"observation has no space.*change from step to step"):
        write_dataset(called, tmp_path / "tools-v0")
    with pytest.raises(ValueError, match="Malformed dataset ID"):
        write_dataset(blackjack, tmp_path / "no version", fields=["info_state"])
    assert list(tmp_path.glob("*-v0")) == []
