"""Described spaces of Gymnasium: random play has elements of each of them."""

import json
from random import Random

import numpy as np
import pytest

from openenv.envs.space_text import sample_space
from openenv.formats.json_text import json_text
from openenv.text.action_forms import UnreadableReply

spaces = pytest.importorskip("gymnasium.spaces")

SPACES = {
    "numbers from 1": spaces.Discrete(5, start=1),
    "rows of numbers": spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [-2, 2]]),
    "rows of bits": spaces.MultiBinary([2, 3]),
    "a text": spaces.Text(min_length=2, max_length=20, charset="ab"),
    "a sequence": spaces.Sequence(spaces.Box(0, 1, (2,))),
    "a tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (2,)))),
    "parts by name": spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Dict({"c": spaces.MultiBinary(2)})}),
    "bits of a box": spaces.Box(0, 1, (2,), dtype=np.bool_),
    "no bounds": spaces.Box(low=np.array([-np.inf, 0], "f4"), high=np.array([1, np.inf], "f4")),
    "large numbers": spaces.Box(0, 2**64 - 1, (1,), dtype=np.uint64),
}


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_random_play_has_elements_of_a_space_that_json_describes(name):
    from openenv.envs.spaces import describe_space, to_element

    space = SPACES[name]
    description = json.loads(json_text(describe_space(space)))

    for seed in range(20):
        element = to_element(space, json.loads(json_text(sample_space(description, Random(seed)))))
        assert space.contains(element)


def test_random_play_of_a_graph_is_an_error_that_names_it():
    from openenv.envs.spaces import describe_space

    space = spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(3))

    with pytest.raises(UnreadableReply, match="no elements of the action space Graph"):
        sample_space(describe_space(space), Random(0))
