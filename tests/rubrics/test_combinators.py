"""Rubrics made of rubrics."""

import asyncio
import copy
import warnings

import pytest

from openenv.rubrics import Gate, Rubric, RubricDict, RubricList, Sequential, WeightedSum
from tests.rubrics.parts import AsyncConstant, Broken, Constant, Meeting


def test_a_sequence_scores_what_its_last_rubric_scores():
    assert Sequential(Constant(1.0), Constant(0.5), Constant(0.25))(None, None) == 0.25


def test_a_sequence_ends_at_the_first_zero():
    never = Constant(1.0)
    assert Sequential(Constant(1.0), Constant(0.0), never)(None, None) == 0.0
    assert never.calls == 0


def test_an_empty_sequence_scores_one():
    assert Sequential()(None, None) == 1.0


@pytest.mark.parametrize(
    ("first", "second"),
    [(Constant, AsyncConstant), (AsyncConstant, Constant), (AsyncConstant, AsyncConstant)],
)
async def test_a_sequence_with_an_asynchronous_rubric_is_awaited(first, second):
    never = Constant(1.0)
    assert await Sequential(first(1.0), second(0.5))(None, None) == 0.5
    assert await Sequential(first(1.0), second(0.0), never)(None, None) == 0.0
    assert never.calls == 0


async def test_a_sequence_evaluates_a_rubric_only_when_the_one_before_it_is_done():
    events = []
    rubric = Sequential(AsyncConstant(1.0), AsyncConstant(1.0))
    for part in rubric:
        part.register_forward_pre_hook(lambda r, *_: events.append((r, "begins")))
        part.register_forward_hook(lambda r, *_: events.append((r, "ends")))
    await rubric(None, None)
    assert events == [(rubric[0], "begins"), (rubric[0], "ends"), (rubric[1], "begins"), (rubric[1], "ends")]


def test_a_gate_lets_through_what_reaches_its_threshold():
    assert Gate(Constant(0.5), threshold=0.5)(None, None) == 0.5
    assert Gate(Constant(0.49), threshold=0.5)(None, None) == 0.0
    assert Gate(Constant(0.99))(None, None) == 0.0


async def test_a_gate_before_an_asynchronous_rubric_is_awaited():
    assert await Gate(AsyncConstant(0.75), threshold=0.5)(None, None) == 0.75
    assert await Gate(AsyncConstant(0.25), threshold=0.5)(None, None) == 0.0


def test_a_gate_cannot_stand_at_what_is_no_number():
    with pytest.raises(ValueError, match=r"threshold=nan.*no score can be compared"):
        Gate(Constant(1.0), threshold=float("nan"))


def test_a_weighted_sum_adds_scores_times_weights():
    assert WeightedSum([Constant(1.0), Constant(0.5)], [0.75, 0.25])(None, None) == 0.875


async def test_asynchronous_rubrics_of_a_weighted_sum_run_at_one_time():
    barrier = asyncio.Barrier(2)
    rubric = WeightedSum([Meeting(barrier), Constant(0.0), Meeting(barrier)], [0.25, 0.5, 0.25])
    assert await asyncio.wait_for(rubric(None, None), timeout=10) == 0.5


async def test_an_error_of_one_asynchronous_rubric_is_raised_as_it_is_and_ends_the_others():
    cancelled = asyncio.Event()

    class Waiting(Rubric):
        async def forward(self, action, observation):
            try:
                return float(await asyncio.Event().wait())
            except asyncio.CancelledError:
                cancelled.set()
                raise

    with pytest.raises(ZeroDivisionError, match="no tests were run"):
        await WeightedSum([Waiting(), Broken()], [0.5, 0.5])(None, None)
    assert cancelled.is_set()


def test_weights_that_do_not_sum_to_one_are_refused_with_weights_that_do():
    with pytest.raises(ValueError, match=r"\[2, 6\] sum to 8: they must sum to 1.0. Use \[0.25, 0.75\]"):
        WeightedSum([Constant(1.0), Constant(1.0)], [2, 6])


@pytest.mark.parametrize("weights", [[float("nan"), 1.0], [1.0, -1.0], [float("inf"), 0.0]])
def test_weights_that_cannot_be_scaled_to_one_are_refused(weights):
    with pytest.raises(ValueError, match="must sum to 1"):
        WeightedSum([Constant(1.0), Constant(1.0)], weights)


def test_every_rubric_of_a_weighted_sum_has_one_weight():
    with pytest.raises(ValueError, match="1 weights for 2 rubrics"):
        WeightedSum([Constant(1.0), Constant(1.0)], [1.0])


def test_weights_can_be_read_and_not_changed_from_outside():
    rubric = WeightedSum([Constant(1.0), Constant(0.0)], [0.5, 0.5])
    rubric.weights[0] = 7.0
    assert rubric.weights == [0.5, 0.5]


@pytest.mark.parametrize(
    "container",
    [
        lambda *rubrics: Sequential(*rubrics),
        lambda *rubrics: WeightedSum(list(rubrics), [0.5, 0.5]),
        lambda *rubrics: RubricList(list(rubrics)),
    ],
)
def test_children_of_a_container_are_numbered_and_can_be_replaced(container):
    parts = [Constant(1.0), Constant(0.5)]
    rubric = container(*parts)
    assert list(rubric.named_children()) == [("rubric_0", parts[0]), ("rubric_1", parts[1])]
    assert list(rubric) == parts
    assert len(rubric) == 2
    assert rubric[-1] is parts[1]
    rubric.rubric_1 = other = Constant(0.0)
    assert rubric[1] is other


@pytest.mark.parametrize("make", [Sequential, Gate, lambda r: WeightedSum([r], [1.0]), lambda r: RubricList([r])])
def test_what_is_no_rubric_is_refused_where_it_is_given(make):
    with pytest.raises(TypeError, match="is the class Constant: pass an instance"):
        make(Constant)
    with pytest.raises(TypeError, match=r"is 0\.5: pass a Rubric"):
        make(0.5)


def test_a_plain_function_may_stand_for_a_rubric():
    assert Gate(lambda action, observation: 0.5, threshold=0.5)(None, None) == 0.5


def test_containers_nest_and_their_parts_are_found_by_path():
    rubric = Sequential(Gate(Constant(1.0)), WeightedSum([Constant(0.5), Constant(1.0)], [0.5, 0.5]))
    assert rubric(None, None) == 0.75
    assert rubric.get_rubric("rubric_0.rubric").last_score == 1.0
    assert rubric.get_rubric("rubric_1.rubric_0").last_score == 0.5


async def test_pre_hooks_of_a_container_run_before_its_children_and_hooks_after_them():
    child, events = AsyncConstant(0.5), []
    rubric = WeightedSum([child, Constant(0.5)], [0.5, 0.5])

    async def before(r, action, observation):
        events.append(child.calls)

    rubric.register_forward_pre_hook(before)
    rubric.register_forward_hook(lambda r, a, o, score: events.append((child.calls, score)))
    await rubric(None, None)
    assert events == [0, (1, 0.5)]


@pytest.mark.parametrize(
    "rubric",
    [
        Sequential(Constant(0.5)),
        Sequential(),
        Gate(Sequential(Constant(0.5)), threshold=0.0),
        WeightedSum([Gate(Constant(0.5), threshold=0.0)], [1.0]),
    ],
)
async def test_in_an_event_loop_a_score_that_is_ready_can_be_used_or_awaited(rubric):
    score = rubric(None, None)
    assert score + 0.0 == rubric.last_score
    assert type(await rubric(None, None)) is float
    assert await rubric(None, None) == score


def test_outside_an_event_loop_a_score_is_a_plain_number():
    assert type(Sequential(Constant(0.5))(None, None)) is float


def test_a_list_grows_and_keeps_its_order():
    parts = [Constant(n / 4) for n in range(4)]
    rubrics = RubricList(parts[:1])
    rubrics.append(parts[1])
    rubrics.extend(parts[2:])
    assert list(rubrics) == parts
    assert [name for name, _ in rubrics.named_children()] == ["rubric_0", "rubric_1", "rubric_2", "rubric_3"]


def test_a_dictionary_finds_its_rubrics_by_key_by_attribute_and_by_path():
    pong, breakout = Constant(1.0), Constant(0.5)
    games = RubricDict({"pong": pong})
    games["breakout"] = breakout
    assert games["pong"] is games.pong is games.get_rubric("pong") is pong
    assert list(games.items()) == list(games.named_children()) == [("pong", pong), ("breakout", breakout)]
    assert list(games) == list(games.keys()) == ["pong", "breakout"]
    assert list(games.values()) == [pong, breakout]
    assert len(games) == 2
    assert "pong" in games
    assert "tennis" not in games


def test_a_dictionary_can_be_updated_and_copied():
    games = RubricDict({"pong": Constant(0.0)})
    games.update({"pong": Constant(1.0), "chess": Constant(0.5)})
    twin = copy.deepcopy(games)
    assert twin["pong"](None, None) == 1.0
    assert [path for path, _ in twin.named_rubrics()] == ["pong", "chess"]


def test_a_key_may_be_called_as_a_method_is():
    part = Constant(0.5)
    games = RubricDict({"keys": part, "v1.2": part})
    assert games["keys"] is games.get_rubric("keys") is games.get_rubric("v1.2") is part
    assert list(games.keys()) == ["keys", "v1.2"]


def test_an_unknown_key_is_answered_with_the_key_that_was_meant():
    with pytest.raises(KeyError, match=r"'pongg' in RubricDict: did you mean 'pong'"):
        RubricDict({"pong": Constant(1.0)})["pongg"]
    with pytest.raises(AttributeError, match="'chess' in RubricDict: there is none"):
        _ = RubricDict().chess


def test_a_key_is_a_string_and_its_value_a_rubric():
    with pytest.raises(TypeError, match=r"key 3 is int.*Use a string"):
        RubricDict({3: Constant(1.0)})
    with pytest.raises(TypeError, match="RubricDict: 'pong' is 1: pass a Rubric"):
        RubricDict({"pong": 1})


@pytest.mark.parametrize("rubrics", [RubricList([Constant(1.0)]), RubricDict({"a": Constant(1.0)})])
def test_a_list_or_dictionary_does_not_score_and_the_error_has_the_remedy(rubrics):
    with pytest.raises(NotImplementedError, match=r"put it into a rubric whose forward\(\) calls a child"):
        rubrics(None, None)


def test_a_synchronous_evaluation_leaves_nothing_unawaited():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Sequential(Gate(Constant(1.0)), WeightedSum([Constant(1.0)], [1.0]))(None, None) == 1.0
