"""The calls of a model in one episode as a graph: a call's parent is the one whose tokens its prompt begins with."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from openenv.agents.endpoint.requests import meaning


@dataclass(eq=False)
class TurnNode:
    """One call: its prompt and its reply, as the engine's tokens where these are known."""

    node_id: str
    prompt_ids: list[int]
    sampled_ids: list[int]
    sampled_logprobs: list[float] | None = None
    """Natural logarithms, one for each sampled token; None where they are not known, or not of these tokens."""
    parent_id: str | None = None
    """Set by the graph, as `index` is."""
    index: int = 0
    model: str | None = None
    finish_reason: str | None = None
    harness_session_id: str | None = None
    """The id that the program itself gives its conversation."""
    system_digest: str | None = None
    """Identifies the system message."""
    n_tools: int = 0
    request_messages: list[dict[str, Any]] = field(default_factory=list)
    request_tools: list[dict[str, Any]] | None = None
    sampling_params: dict[str, Any] = field(default_factory=dict)
    """As the engine received them."""
    requested_sampling_params: dict[str, Any] = field(default_factory=dict)
    """As the program asked for them."""
    response_message: dict[str, Any] = field(default_factory=dict)

    @property
    def end_ids(self) -> list[int]:
        """The prompt with the reply."""
        return self.prompt_ids + self.sampled_ids

    @property
    def has_logprobs(self) -> bool:
        """Whether each sampled token has its log-probability."""
        return self.sampled_logprobs is not None and len(self.sampled_logprobs) == len(self.sampled_ids)

    def context_ids(self, parent: "TurnNode | None") -> list[int]:
        """The tokens of the prompt that come after a parent's reply; without one, the whole prompt."""
        return self.prompt_ids[len(parent.end_ids) if parent is not None else 0 :]


@dataclass
class TrainingSequence:
    """A path of the graph from a root to a leaf, as one sequence of tokens."""

    input_ids: list[int]
    loss_mask: list[int]
    """1 for a sampled token with its log-probability, else 0."""
    logprobs: list[float]
    """0 where the mask is."""
    node_ids: list[str]
    prompt_len: int
    """Tokens before the first sampled one."""
    root_id: str
    n_turns: int

    @property
    def n_trainable(self) -> int:
        """Tokens that are trained."""
        return sum(self.loss_mask)

    def turn_lengths(self) -> list[int]:
        """The number of tokens in each row of trained ones."""
        rows = "".join(map(str, self.loss_mask)).split("0")
        return [len(row) for row in rows if row]


class RolloutGraph:
    """The calls of an episode. They may be added in any order."""

    def __init__(self) -> None:
        self._nodes: dict[str, TurnNode] = {}

    def add_turn(self, node: TurnNode) -> TurnNode:
        """Add a call under the one with the longest prompt and reply that its prompt begins with.

        Calls without tokens are compared by their messages, apart from system messages at the head.
        """
        node.index = len(self._nodes)
        length = 0
        for other in self._nodes.values():
            if (found := _shared(other, node)) > length:
                node.parent_id, length = other.node_id, found
        for other in self._nodes.values():
            parent = self._nodes.get(other.parent_id or "")
            if _shared(node, other) > (_shared(parent, other) if parent is not None else 0):
                other.parent_id = node.node_id
        self._nodes[node.node_id] = node
        return node

    def nodes(self) -> list[TurnNode]:
        """All calls, as they were added."""
        return list(self._nodes.values())

    def get(self, node_id: str) -> TurnNode:
        """A call. Raises KeyError for one that is not here."""
        return self._nodes[node_id]

    def children(self, node_id: str) -> list[TurnNode]:
        """The calls that continue a call."""
        return [node for node in self._nodes.values() if node.parent_id == node_id]

    def roots(self) -> list[TurnNode]:
        """The calls that continue none."""
        return [node for node in self._nodes.values() if node.parent_id is None]

    def leaves(self) -> list[TurnNode]:
        """The calls that none continues."""
        parents = {node.parent_id for node in self._nodes.values()}
        return [node for node in self._nodes.values() if node.node_id not in parents]

    def root_of(self, node_id: str) -> str:
        """The id of the first call of a call's conversation."""
        return self.path_to(node_id)[0].node_id

    def path_to(self, leaf_id: str) -> list[TurnNode]:
        """The calls from the root to this one."""
        path = [self._nodes[leaf_id]]
        while path[-1].parent_id is not None:
            path.append(self._nodes[path[-1].parent_id])
        return path[::-1]

    def paths(self) -> Iterator[list[TurnNode]]:
        """The path to each leaf."""
        return (self.path_to(leaf.node_id) for leaf in self.leaves())

    def forks(self) -> list[tuple[str, list[str]]]:
        """The calls that several continue, with the ids of these."""
        found = ((node_id, [child.node_id for child in self.children(node_id)]) for node_id in self._nodes)
        return [(node_id, children) for node_id, children in found if len(children) > 1]

    def discarded_nodes(self) -> list[TurnNode]:
        """The calls that were made again: none continues them, and one does continue another of the same prompt."""
        parents = {node.parent_id for node in self._nodes.values()}
        siblings: dict[Any, list[TurnNode]] = {}
        for node in self._nodes.values():
            key = node.parent_id or (tuple(node.prompt_ids) or node.node_id)
            siblings.setdefault(key, []).append(node)
        return [
            node
            for group in siblings.values()
            if any(node.node_id in parents for node in group)
            for node in group
            if node.node_id not in parents
        ]

    def sequence_for(self, leaf_id: str) -> TrainingSequence:
        """The path to a call as one sequence. The tokens of a reply without log-probabilities are context."""
        path = self.path_to(leaf_id)
        sequence = TrainingSequence([], [], [], [node.node_id for node in path], len(path[0].prompt_ids),
                                    path[0].node_id, len(path))  # fmt: skip
        for parent, node in zip([None, *path], path, strict=False):
            context, sampled = node.context_ids(parent), len(node.sampled_ids)
            sequence.input_ids += context + node.sampled_ids
            sequence.loss_mask += [0] * len(context) + [int(node.has_logprobs)] * sampled
            known = node.sampled_logprobs if node.has_logprobs and node.sampled_logprobs else [0.0] * sampled
            sequence.logprobs += [0.0] * len(context) + known
        return sequence

    def sequences(self) -> list[TrainingSequence]:
        """The sequence of each path."""
        return [self.sequence_for(leaf.node_id) for leaf in self.leaves()]

    def stats(self) -> dict[str, Any]:
        """How many calls there are of each kind."""
        return {
            "n_turns": len(self._nodes), "n_roots": len(self.roots()), "n_leaves": len(self.leaves()),
            "n_forks": len(self.forks()), "n_discarded": len(self.discarded_nodes()),
        }  # fmt: skip


def common_prefix_len(a: list[int], b: list[int]) -> int:
    """How many tokens two lists have in common at their head."""
    return next((place for place, (one, other) in enumerate(zip(a, b, strict=False)) if one != other),
                min(len(a), len(b)))  # fmt: skip


def _shared(earlier: TurnNode, later: TurnNode) -> int:
    """The length of a call with its reply, if the other one's prompt begins with it; else 0."""
    if later.prompt_ids:
        size = len(earlier.prompt_ids)
        if not size < len(later.prompt_ids):  # a reply without tokens leads to the same prompt, and continues nothing
            return 0
        end = size + len(earlier.sampled_ids)
        is_head = later.prompt_ids[:size] == earlier.prompt_ids and later.prompt_ids[size:end] == earlier.sampled_ids
        return end if is_head and end > 0 else 0
    if earlier.prompt_ids or not earlier.response_message:
        return 0
    head = _spoken([*earlier.request_messages, {"role": "assistant", **earlier.response_message}])
    return len(head) if _spoken(later.request_messages)[: len(head)] == head else 0


def _spoken(messages: list[dict[str, Any]]) -> list[list[Any]]:
    """What messages say, without the system messages at the head, which some programs write anew for each call."""
    first = next((place for place, message in enumerate(messages) if message["role"] != "system"), len(messages))
    return [meaning(message) for message in messages[first:]]
