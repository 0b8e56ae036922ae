"""The reasoning-gym environment behind a server: seeds, levels, settings, snapshots, and errors."""

import subprocess
import sys

import pytest

from openenv.core.errors import EnvironmentFault
from tests.envs.extras import require_extra

require_extra("reasoning_gym", "reasoning_gym")

from openenv.envs.catalog import load
from openenv.envs.reasoning_gym_env import ReasoningGymAction, ReasoningGymEnv
from openenv.envs.reasoning_gym_env.server import library_process
from openenv.envs.reasoning_gym_env.server.app import app, program
from openenv.envs.reasoning_gym_env.server.environment import ReasoningGymEnvironment

HASHED = ["isomorphic_strings", "polynomial_multiplication", "ransom_note", "word_ladder"]
"""Datasets whose tasks depend on PYTHONHASHSEED."""
GLOBAL = ["codeio", "list_functions", "pool_matrix"]
"""Datasets that draw from global random numbers; codeio does so in the tasks of few seeds, such as 26 and 43."""


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def asked(env, **reset):
    return env.reset(**reset).observation.question


def test_twenty_sums_are_asked_and_scored(url):
    with ReasoningGymEnv(url) as env:
        for seed in range(20):
            question = asked(env, seed=seed, settings={"min_terms": 2, "max_terms": 2, "allow_negation": False})
            left, sign, right, _ = question.rpartition(": ")[2].split()
            total = int(left) + int(right) if sign == "+" else int(left) - int(right)
            result = env.step(ReasoningGymAction(answer=str(total)))

            assert (result.reward, result.done) == (1.0, True)
            assert result.observation.reference_answer == str(total)
            assert env.state().step_count == 1


def test_equal_seeds_ask_equal_questions_and_others_differ(url):
    with ReasoningGymEnv(url) as env, ReasoningGymEnv(url) as other:
        questions = [asked(env, seed=seed, dataset="basic_arithmetic") for seed in range(13)]

        assert [asked(other, seed=seed, dataset="basic_arithmetic") for seed in range(13)] == questions
        assert len(set(questions)) == 13


def test_without_a_seed_the_metadata_names_a_random_one(url):
    with ReasoningGymEnv(url) as env:
        firsts = [env.reset().observation for _ in range(2)]

        assert firsts[0].metadata["seed"] != firsts[1].metadata["seed"]
        assert env.reset(seed=firsts[0].metadata["seed"]).observation == firsts[0]
        assert env.state().seed == firsts[0].metadata["seed"]


def test_tasks_repeat_in_another_process_and_whatever_was_asked_before(url):
    resets = [{"dataset": name, "seed": seed} for name in (*HASHED, *GLOBAL) for seed in (26, 43)]
    program = (
        "import random; from openenv.envs.reasoning_gym_env.server.environment import ReasoningGymEnvironment as E\n"
        f"e = E(); print([e.reset(**reset).question for reset in {resets[::-1]}][::-1])"
    )
    with ReasoningGymEnv(url) as env, ReasoningGymEnv(url) as noise:
        questions = []
        for reset in resets:
            asked(noise, dataset="pool_matrix")
            asked(noise, dataset="codeio")
            questions.append(asked(env, **reset))
    elsewhere = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert eval(elsewhere.stdout) == questions
    assert len(set(questions)) == len(questions)


def test_a_higher_level_asks_longer_questions_and_settings_replace_those_of_the_level(url):
    with ReasoningGymEnv(url) as env:

        def terms(**reset):
            questions = [asked(env, seed=seed, **reset) for seed in range(20)]
            return max(question.count(" + ") + question.count(" - ") + 1 for question in questions)

        assert terms(level=0) <= 2 + 1
        assert terms(level=6) >= 7
        assert terms(level=6, settings={"min_terms": 2, "max_terms": 2}) == 2
        assert (env.state().level, env.state().settings) == (6, {"min_terms": 2, "max_terms": 2})


def test_settings_of_the_server_are_the_defaults_of_its_dataset_only(serving):
    with ReasoningGymEnv(
        serving(program.build(dataset="leg_counting", settings={"min_animals": 9, "max_animals": 9}))
    ) as env:
        assert asked(env, seed=1).count(",") == 8 + 1
        assert env.state().settings == {"min_animals": 9, "max_animals": 9}
        assert asked(env, seed=1, dataset="chain_sum").startswith("State the final answer")
        assert env.state().settings == {}


def test_a_saved_question_is_restored_and_forked(url):
    with ReasoningGymEnv(url) as env:
        asked(env, seed=5, dataset="gcd", settings={"max_value": 50})
        token, before = env.save(), env.state()
        asked(env, seed=6)
        env.restore(token)
        (branch,) = env.fork(1)
        with branch:
            assert env.state() == branch.state() == before
            results = [player.step(ReasoningGymAction(answer="1")) for player in (env, branch)]

    assert results[0].observation == results[1].observation


def test_settings_of_every_type_of_value_are_taken(url):
    with ReasoningGymEnv(url) as env:
        for dataset, settings in (
            ("basic_arithmetic", {"operators": ["+"], "allow_parentheses": False, "whitespace": "no_space"}),
            ("polynomial_multiplication", {"variables": ["x", "y"], "min_terms": 2}),
            ("time_intervals", {"min_time": "08:00:00", "task_types": ["time"]}),
            ("word_sorting", {"transformation": "uppercase"}),
            ("aiw", {"task_type_weights": [1.0, 0.0, 0.0]}),
            ("codeio", {"difficulty": 3}),
            ("spell_backward", {"min_word_len": 5}),
        ):
            assert asked(env, seed=1, dataset=dataset, settings=settings)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"dataset": "chainsum"}, r"dataset='chainsum' is not among the 105 datasets\. Did you mean 'chain_sum'\?"),
        ({"dataset": "composite"}, "'composite' is not among"),
        ({"dataset": 3}, "dataset=3: expected the name of a dataset"),
        ({"level": "high"}, "level='high': expected a whole number from 0"),
        ({"level": True}, "level=True"),
        ({"level": 99}, "level=99: chain_sum has the levels 0 to 10"),
        ({"level": -1}, "level=-1: chain_sum has the levels 0 to"),
        ({"dataset": "acre", "level": 1}, "acre has no curriculum"),
        ({"settings": [1]}, "settings="),
        ({"settings": {"min_term": 3}}, r"settings\.min_term is not a setting of chain_sum\. Did you mean 'min_terms'"),
        ({"settings": {"seed": 3}}, "settings.seed is not a setting"),
        ({"settings": {"min_terms": "3"}}, r"settings\.min_terms='3': expected int"),
        ({"settings": {"min_terms": 9, "max_terms": 3}}, "of chain_sum: max_terms must be >= min_terms"),
        ({"settings": {"min_terms": 1, "note": "x" * 6000}}, "at most 5000 characters"),
        ({"dataset": "spell_backward", "settings": {"data_file": "../x"}}, r"data_file: it names a file of the server"),
        ({"dataset": "figlet_font", "settings": {"static_font": "x"}}, "it names a file of the server"),
        (
            {"dataset": "polynomial_multiplication", "settings": {"variables": ["open('x')"]}},
            "neither words of letters",
        ),
        ({"dataset": "basic_arithmetic", "settings": {"operators": ["exit()"]}}, "neither words of letters"),
        ({"size": 3}, "'size' is not known. Known: seed, episode_id, dataset, level, settings"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with ReasoningGymEnv(url) as env:
        asked(env, seed=1)
        before = env.state()
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.state() == before
        assert env.step(ReasoningGymAction(answer="x")).done


def test_a_task_that_takes_too_long_is_an_error_and_the_server_goes_on(url):
    with ReasoningGymEnv(url) as env:
        asked(env, seed=1)
        with pytest.raises(EnvironmentFault, match=r"took too much time or memory\. Choose a lower level or smaller"):
            env.reset(seed=1, settings={"min_terms": 10**8, "max_terms": 10**8})

        assert env.state().settings == {}
        assert asked(env, seed=2).startswith("State the final answer")


def test_an_answer_that_ends_the_process_scores_nothing_and_the_next_one_is_scored(url, monkeypatch):
    with ReasoningGymEnv(url) as env:
        asked(env, seed=1)
        library_process.LIBRARY._process.kill()
        ended = env.step(ReasoningGymAction(answer="-4"))
        asked(env, seed=1)
        result = env.step(ReasoningGymAction(answer="-4"))

        assert (ended.reward, ended.done) == (0.0, True)
        assert (result.reward, result.observation.reference_answer) == (1.0, "-4")


def test_an_answer_that_is_too_long_is_refused(url):
    with ReasoningGymEnv(url) as env:
        asked(env, seed=1)
        with pytest.raises(Exception, match="20000"):
            env.step(ReasoningGymAction.model_construct(answer="x" * 20_001, metadata={}))


def test_a_step_before_the_first_reset_is_an_error():
    environment = ReasoningGymEnvironment(dataset="gcd")
    for call in (lambda: environment.step(ReasoningGymAction(answer="1")), environment.save_state):
        with pytest.raises(ValueError, match=r"Call reset\(\) first"):
            call()
    assert environment.state.dataset == "gcd"


def test_wrong_options_of_the_server_are_errors():
    with pytest.raises(ValueError, match="level='high': expected a whole number"):
        program.settings({"REASONING_GYM_LEVEL": "high"})
    with pytest.raises(ValueError, match="settings='x' is not JSON"):
        program.settings({"REASONING_GYM_SETTINGS": "x"})


def test_the_catalog_lists_a_task_for_each_dataset():
    assert len(load("reasoning_gym").load_tasks()) == 105
