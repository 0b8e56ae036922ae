"""Calls of a model hang together by their tokens, or by their messages where an engine returns none."""

import itertools

import pytest
from openenv.core.harness.capture.graph import RolloutGraph, TurnNode, common_prefix_len


def node(name, prompt, sampled, logprobs=True):
    return TurnNode(name, prompt, sampled, [-1.0] * len(sampled) if logprobs else None)


def graph_of(*nodes):
    graph = RolloutGraph()
    for one in nodes:
        graph.add_turn(one)
    return graph


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_conversation_that_grows_is_one_sequence_in_whatever_order_its_calls_arrive(order):
    nodes = [node("a", [1, 2], [3]), node("b", [1, 2, 3, 4], [5, 6]), node("c", [1, 2, 3, 4, 5, 6, 7], [8])]
    graph = graph_of(*(nodes[place] for place in order))

    (sequence,) = graph.sequences()
    assert sequence.node_ids == ["a", "b", "c"]
    assert sequence.input_ids == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sequence.loss_mask == [0, 0, 1, 0, 1, 1, 0, 1]
    assert sequence.logprobs == [0, 0, -1, 0, -1, -1, 0, -1]
    assert (sequence.prompt_len, sequence.n_trainable, sequence.turn_lengths()) == (2, 4, [1, 2, 1])
    assert graph.root_of("c") == "a"


def test_a_history_that_is_written_anew_begins_another_sequence():
    graph = graph_of(node("a", [1, 2], [3]), node("b", [1, 2, 9, 4], [5]), node("c", [9, 2, 3, 4], [5]))

    assert [one.node_id for one in graph.roots()] == ["a", "b", "c"]
    assert graph.stats() == {"n_turns": 3, "n_roots": 3, "n_leaves": 3, "n_forks": 0, "n_discarded": 0}


def test_a_call_that_was_made_again_is_discarded_where_the_other_went_on():
    graph = graph_of(node("a", [1], [2]), node("again", [1], [3]), node("b", [1, 3, 4], [5]))
    both_end = graph_of(node("a", [1], [2]), node("b", [1, 2, 3], [4]), node("c", [1, 2, 3], [5]))

    assert [one.node_id for one in graph.discarded_nodes()] == ["a"]
    assert both_end.discarded_nodes() == []
    assert both_end.forks() == [("a", ["b", "c"])]


def test_a_reply_without_log_probabilities_is_context():
    graph = graph_of(node("a", [1], [2, 3], logprobs=False), node("b", [1, 2, 3, 4], [5]))

    (sequence,) = graph.sequences()
    assert sequence.loss_mask == [0, 0, 0, 0, 1]
    assert sequence.logprobs == [0, 0, 0, 0, -1]


def test_calls_without_tokens_hang_together_by_what_their_messages_say():
    def call(name, system, *contents, calls=()):
        roles = itertools.cycle(["user", "assistant"])
        messages = [{"role": "system", "content": system}]
        messages += [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]
        return TurnNode(name, [], [], request_messages=messages, response_message={"content": f"reply to {name}"})

    graph = graph_of(
        call("a", "Clock: 1", "go"),
        call("b", "Clock: 2", "go", "reply to a ", "more"),
        call("c", "", "go", "other", "x"),
    )

    assert [[one.node_id for one in path] for path in graph.paths()] == [["a", "b"], ["c"]]


def test_the_common_head_of_two_lists():
    assert (common_prefix_len([1, 2, 3], [1, 2]), common_prefix_len([1, 2], [1, 3]), common_prefix_len([], [1])) == (
        2, 1, 0,
    )  # fmt: skip
