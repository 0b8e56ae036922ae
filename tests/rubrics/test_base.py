"""A rubric: its score, its children, its hooks."""

import copy
import functools
import pickle

import pytest

from openenv.rubrics import Rubric
from tests.rubrics.parts import AsyncConstant, Constant


class Code(Rubric):
    """Two children, one of which has a child of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.syntax = Constant(1.0)
        self.tests = Wrapped(Constant(0.5))

    def forward(self, action, observation):
        return self.syntax(action, observation) * self.tests(action, observation)


class Wrapped(Rubric):
    def __init__(self, inner) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, action, observation):
        return self.inner(action, observation)


class Forgetful(Rubric):
    """Written by an author that does not call super().__init__()."""

    def __init__(self) -> None:
        self.part = Constant(0.25)

    def forward(self, action, observation):
        return self.part(action, observation)


def test_a_rubric_without_forward_cannot_be_made():
    with pytest.raises(TypeError, match="forward"):
        Rubric()


def test_calling_a_rubric_returns_its_score_and_remembers_it():
    rubric = Constant(0.75)
    assert rubric.last_score is None
    assert rubric("action", "observation") == 0.75
    assert rubric.last_score == 0.75


def test_action_and_observation_reach_forward():
    class Same(Rubric):
        def forward(self, action, observation):
            return float(action == observation)

    assert Same()("a", "a") == 1.0
    assert Same()("a", "b") == 0.0


def test_attributes_that_are_rubrics_are_children_in_order_of_assignment():
    code = Code()
    assert list(code.named_children()) == [("syntax", code.syntax), ("tests", code.tests)]
    assert list(code.children()) == [code.syntax, code.tests]


def test_descendants_are_listed_depth_first_with_their_paths():
    code = Code()
    assert [path for path, _ in code.named_rubrics()] == ["syntax", "tests", "tests.inner"]
    assert [path for path, _ in code.named_rubrics("reward")] == ["reward.syntax", "reward.tests", "reward.tests.inner"]
    assert list(code.rubrics()) == [code.syntax, code.tests, code.tests.inner]


def test_a_path_finds_the_rubric_that_the_list_names():
    code = Code()
    assert all(code.get_rubric(path) is rubric for path, rubric in code.named_rubrics())


def test_an_unknown_path_is_answered_with_the_path_that_was_meant():
    with pytest.raises(KeyError, match=r"'tests\.iner' in Code: did you mean 'tests\.inner'"):
        Code().get_rubric("tests.iner")


def test_a_path_unlike_any_is_answered_with_all_of_them():
    with pytest.raises(KeyError, match=r"there is 'syntax', 'tests', 'tests\.inner'"):
        Code().get_rubric("zzz")


def test_a_replaced_child_is_a_child_no_longer():
    code = Code()
    code.syntax = None
    del code.tests
    assert list(code.children()) == []
    code.syntax = first = Constant(0.0)
    code.syntax = second = Constant(1.0)
    assert first is not second
    assert list(code.children()) == [second]


def test_a_rubric_whose_author_forgot_the_base_constructor_works_all_the_same():
    rubric, events = Forgetful(), []
    rubric.register_forward_hook(lambda *arguments: events.append(arguments))
    assert rubric.get_rubric("part") is rubric.part
    assert rubric(None, None) == rubric.last_score == 0.25
    assert len(events) == 1


def test_every_part_has_its_score_after_an_evaluation():
    code = Code()
    assert code.scores() == {}
    code("a", "o")
    assert code.scores() == {"syntax": 1.0, "tests": 0.5, "tests.inner": 0.5}


def test_hooks_run_around_forward_in_order_of_registration():
    rubric, events = Constant(0.5), []
    rubric.register_forward_hook(lambda r, a, o, score: events.append(("after", r is rubric, a, o, score)))
    rubric.register_forward_pre_hook(lambda r, a, o: events.append(("before", r is rubric, a, o, r.calls)))
    rubric.register_forward_pre_hook(lambda *_: events.append("before, second"))
    rubric.register_forward_hook(lambda r, *_: events.append(("after, second", r.last_score)))
    rubric("a", "o")
    assert events == [
        ("before", True, "a", "o", 0),
        "before, second",
        ("after", True, "a", "o", 0.5),
        ("after, second", 0.5),
    ]


def test_hooks_belong_to_one_rubric_and_not_to_its_class():
    watched, other, events = Constant(1.0), Constant(1.0), []
    watched.register_forward_hook(lambda *_: events.append("watched"))
    watched.register_forward_pre_hook(lambda *_: events.append("watched"))
    other(None, None)
    assert events == []


async def test_a_coroutine_forward_makes_the_call_awaitable():
    rubric = AsyncConstant(0.5)
    assert await rubric(None, None) == rubric.last_score == 0.5


async def test_nothing_of_an_asynchronous_rubric_happens_before_it_is_awaited():
    rubric, events = AsyncConstant(0.5), []
    rubric.register_forward_pre_hook(lambda *_: events.append("before"))
    call = rubric(None, None)
    assert events == []
    await call
    assert events == ["before"]


async def test_hooks_of_an_asynchronous_rubric_run_around_the_awaited_score():
    rubric, events = AsyncConstant(0.5), []
    rubric.register_forward_pre_hook(lambda r, *_: events.append(r.calls))
    rubric.register_forward_hook(lambda r, a, o, score: events.append(score))
    await rubric(None, None)
    assert events == [0, 0.5]


@pytest.mark.parametrize("rubric_cls", [Constant, AsyncConstant])
async def test_asynchronous_hooks_are_awaited_whatever_the_rubric(rubric_cls):
    rubric, events = rubric_cls(0.5), []

    async def before(r, action, observation):
        events.append(("before", r.calls))

    async def after(note, r, action, observation, score):
        events.append((note, score))

    rubric.register_forward_pre_hook(before)
    rubric.register_forward_hook(functools.partial(after, "after"))
    assert await rubric(None, None) == 0.5
    assert events == [("before", 0), ("after", 0.5)]


async def test_a_parent_that_hands_on_an_asynchronous_childs_score_is_awaited_too():
    wrapped = Wrapped(AsyncConstant(0.5))
    assert await wrapped(None, None) == wrapped.last_score == 0.5


async def test_an_error_of_forward_reaches_the_caller_and_leaves_the_last_score():
    rubric = Wrapped(AsyncConstant(0.5))
    await rubric(None, None)
    rubric.inner = Wrapped(None)
    with pytest.raises(TypeError, match="not callable"):
        rubric(None, None)
    assert rubric.last_score == 0.5


def test_resetting_a_rubric_resets_its_descendants():
    class Remembering(Constant):
        def reset(self):
            self.calls = 0

    outer = Wrapped(Wrapped(Remembering(1.0)))
    outer(None, None)
    outer.reset()
    assert outer.get_rubric("inner.inner").calls == 0


def test_a_rubric_has_no_configuration_until_it_writes_one():
    rubric = Constant(0.5)
    rubric.load_state_dict({"anything": 1})
    assert rubric.state_dict() == {}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rubric: pickle.loads(pickle.dumps(rubric))])
def test_a_rubric_can_be_copied_and_pickled(copied):
    twin = copied(Code())
    assert twin("a", "o") == 0.5
    assert [path for path, _ in twin.named_rubrics()] == ["syntax", "tests", "tests.inner"]
