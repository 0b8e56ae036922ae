"""A language model as judge, asked over a real connection."""

import asyncio
import logging

import pytest

from openenv.agents.llm.client import LLMClient, LLMError, OpenAIClient
from openenv.rubrics import LLMJudge, WeightedSum
from tests.agents.llm.llm_service import llm_service
from tests.rubrics.parts import Seen


@pytest.fixture
def service():
    with llm_service() as running:
        yield running


def judge(service, template="Rate {action} from 0 to 1", **options):
    return LLMJudge(template, OpenAIClient(service.url, None, "judge"), **options)


async def test_the_model_is_shown_action_and_observation_and_its_number_is_the_score(service):
    service.reply_with("I would say 0.8, perhaps 0.9.")
    rubric = judge(service, "{action[0]} got {observation.reward}. Answer as {{score}}.")
    assert await rubric(["left"], Seen(reward=3.0)) == rubric.last_score == 0.8
    assert service.body["messages"] == [{"role": "user", "content": "left got 3.0. Answer as {score}."}]


async def test_the_model_is_shown_long_observations_whole(service):
    service.reply_with("1")
    await judge(service, "{observation}")(None, Seen(reward=0.0, metadata={"text": "x" * 5000}))
    assert "x" * 5000 in service.body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("1", 1.0),
        ("0.25/1", 0.25),
        (".5", 0.5),
        ("Score:0.", 0.0),
        ("8-10", 8.0),
        ("rating-7", 7.0),
        ("-0.5", -0.5),
        ("about 3.5.", 3.5),
    ],
)
async def test_the_first_number_is_the_score(service, answer, score):
    service.reply_with(answer)
    assert await judge(service, normalize=False)(None, None) == score


@pytest.mark.parametrize(("answer", "score"), [("7", 1.0), ("-3", 0.0), ("0.5", 0.5)])
async def test_scores_are_limited_to_zero_to_one_unless_configured_otherwise(service, answer, score):
    service.reply_with(answer)
    assert await judge(service)(None, None) == score


@pytest.mark.parametrize(("pattern", "score"), [(r"total: (\d+)", 7.0), (r"[789]", 7.0)])
async def test_a_pattern_finds_the_score_in_its_group_or_as_a_whole(service, pattern, score):
    service.reply_with("3 and 4, total: 7")
    assert await judge(service, score_pattern=pattern, normalize=False)(None, None) == score


@pytest.mark.parametrize(("answer", "pattern"), [("no idea", None), ("score: nan", r"score: (\w+)"), ("", None)])
async def test_an_answer_without_a_score_gives_the_default_and_logs_a_warning(service, caplog, answer, pattern):
    service.reply_with(answer)
    with caplog.at_level(logging.WARNING):
        assert await judge(service, score_pattern=pattern, default_score=0.125)(None, None) == 0.125
    assert repr(answer) in caplog.text


async def test_a_model_that_cannot_be_asked_is_an_error_and_no_score(service):
    service.answers = [(401, "no such key")]
    rubric = judge(service)
    with pytest.raises(LLMError, match="401"):
        await rubric(None, None)
    assert rubric.last_score is None


async def test_several_judges_are_asked_at_one_time():
    class Meeting(LLMClient):
        """Answers once all are asked."""

        def __init__(self, barrier):
            super().__init__("http://nowhere", 0)
            self.barrier = barrier

        async def complete(self, prompt, **kwargs):
            await self.barrier.wait()
            return "1"

    client = Meeting(asyncio.Barrier(2))
    rubric = WeightedSum([LLMJudge("Good?", client), LLMJudge("Brief?", client)], [0.5, 0.5])
    assert await asyncio.wait_for(rubric(None, None), timeout=10) == 1.0


@pytest.mark.parametrize("template", ["{reply}", "{}", "{0}", 'Answer {"score": 1}'])
def test_a_template_with_another_placeholder_is_refused_when_the_judge_is_made(service, template):
    with pytest.raises(ValueError, match="Double the braces that are meant literally"):
        judge(service, template)


def test_a_template_with_an_open_brace_is_refused(service):
    with pytest.raises(ValueError, match="Double a brace"):
        judge(service, "Rate {action from 0 to 1")


async def test_a_subclass_may_fill_in_its_template_by_its_own_rules(service):
    class Asking(LLMJudge):
        def _render_prompt(self, action, observation):
            return self.prompt_template.format(question="why?")

    service.reply_with("1")
    await Asking("{question}", OpenAIClient(service.url, None, "judge"))(None, None)
    assert service.body["messages"][0]["content"] == "why?"


def test_a_pattern_that_is_no_regular_expression_is_refused(service):
    with pytest.raises(ValueError, match=r"score_pattern='\(' is not a regular expression"):
        judge(service, score_pattern="(")


async def test_the_configuration_goes_into_another_judge(service):
    first = judge(service, "Is {action} good?", score_pattern=r"\d", default_score=0.5, normalize=False)
    other = judge(service)
    other.load_state_dict(first.state_dict())
    assert other.state_dict() == {
        "prompt_template": "Is {action} good?", "score_pattern": r"\d", "default_score": 0.5, "normalize": False,
    }  # fmt: skip
    service.reply_with("42")
    assert await other(None, None) == 4.0


def test_a_configuration_without_a_key_changes_nothing(service):
    rubric = judge(service, score_pattern=r"\d", default_score=0.5, normalize=False)
    before = rubric.state_dict()
    rubric.load_state_dict({})
    assert rubric.state_dict() == before
