"""The text interface of the reasoning-gym environment."""

from random import Random

from openenv.envs.reasoning_gym_env import ReasoningGymAction, ReasoningGymObservation, ReasoningGymText

TEXT = ReasoningGymText(ReasoningGymAction, ReasoningGymObservation)
SEEN = ReasoningGymObservation(question="How many legs\nhave two cats?", dataset="leg_counting")


def test_the_question_is_the_prompt():
    assert TEXT.describe(SEEN) == "How many legs\nhave two cats?"
    assert TEXT.describe(SEEN.model_copy(update={"reference_answer": "8"})) == "A right answer: 8"


def test_a_reply_is_the_answer_or_contains_it_between_marks():
    assert TEXT.parse(" 8\n", SEEN) == ReasoningGymAction(answer="8")
    assert TEXT.parse("<answer>7</answer> or rather <answer> 8 </answer>.", SEEN) == ReasoningGymAction(answer="8")
    assert TEXT.problem("8", SEEN) == ""


def test_an_answer_that_is_too_long_is_none():
    assert TEXT.parse("8" * 20_001, SEEN) is None
    assert "longer than 20000" in TEXT.problem("8" * 20_001, SEEN)


def test_random_replies_are_words_of_the_question():
    reply, action = TEXT.random_reply(SEEN, Random(1))

    assert set(reply.split()) <= set(SEEN.question.split())
    assert TEXT.parse(reply, SEEN) == action
