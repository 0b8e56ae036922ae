"""Every dataset of reasoning-gym: questions, reference answers, garbage, and answers that would run as a program."""

import time

import pytest

from tests.envs.extras import require_extra

require_extra("reasoning_gym", "reasoning_gym")

from reasoning_gym.factory import CURRICULA

from openenv.envs.reasoning_gym_env import ReasoningGymAction, ReasoningGymEnv
from openenv.envs.reasoning_gym_env.server import datasets, scores
from openenv.envs.reasoning_gym_env.server.app import app
from openenv.envs.reasoning_gym_env.server.datasets import NAMES, Datasets

WITHOUT_REFERENCE = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
REFUSED_LEVELS = {"knight_swap", "modulo_grid"}
GARBAGE = ["I do not know", "qzx qzx", "@#!", "{]", "\n", "", "lorem ipsum " * 200, "((((", "\x00", "\u202e१२३"]
PROGRAMS = [
    "__import__('os').system('touch {path}')",
    "open('{path}', 'w')",
    "[open('{path}', 'w').name]",
    "x.func(open)('{path}')",
    'S(\'open("{path}", "w")\')',
    "(lambda: open('{path}', 'w'))()",
    'exec(\'open("{path}", "w")\')',
]
BOMBS = [
    "9**9**9**9",
    "((9**99)**99)**99",
    "9**(9**9)",
    "factorial(10**9)",
    "1e999999999",
    "N(pi, 10**9)",
    "x**999999999",
    "(" * 5000 + "1" + ")" * 5000,
    "-" * 9000 + "1",
    "1+" * 9000 + "1",
    "sin(" * 60 + "x" + ")" * 60,
]
EVALUATING = ["binary_matrix", "countdown", "intermediate_integration", "n_queens", "polynomial_multiplication",
              "puzzle24", "simple_integration", "spiral_matrix", "string_insertion"]  # fmt: skip


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_answer_earns_one_and_garbage_nearly_nothing(url, name):
    with ReasoningGymEnv(url) as env:
        question = env.reset(seed=1, dataset=name).observation.question
        rewards = []
        for garbage in GARBAGE:
            assert env.reset(seed=1, dataset=name).observation.question == question
            result = env.step(ReasoningGymAction(answer=garbage))
            assert result.done
            rewards.append(result.reward)
        reference = result.observation.reference_answer
        assert max(rewards) <= 0.05, dict(zip(GARBAGE, rewards, strict=True))
        assert (reference is None) == (name in WITHOUT_REFERENCE)
        if reference is not None:
            env.reset(seed=1, dataset=name)
            assert env.step(ReasoningGymAction(answer=reference)).reward == 1.0


@pytest.fixture(scope="module")
def library():
    """The datasets in this process, where the library's own classes can be compared."""
    return Datasets()


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_asks_the_first_question_of_the_librarys_dataset_of_that_seed(library, name):
    library.task(name, None, {}, 5)  # a kept dataset is then given another seed
    entry = library._entry(name, None, {}, 77)
    datasets._set_global_seeds(77)
    dataset = datasets._make(name, datasets.make_config(name, None, {}, 77))
    datasets._set_global_seeds(77)

    assert str(entry["question"]) == str(dataset[0]["question"])
    assert entry["answer"] == dataset[0]["answer"]


@pytest.mark.parametrize("name", EVALUATING)
def test_no_scorer_runs_an_answer_as_a_program(library, name, tmp_path):
    for number, program in enumerate(PROGRAMS):
        path = tmp_path / str(number)
        assert library.score(name, None, {}, 3, program.format(path=path))["score"] <= 0.05
        assert not path.exists(), program


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
def test_no_scorer_computes_for_long(library, bomb):
    started = time.process_time()
    for name in EVALUATING:
        assert library.score(name, None, {}, 3, bomb)["score"] <= 0.05

    assert time.process_time() - started < 20


@pytest.mark.parametrize(
    "text",
    [
        "x**3/3 + C",
        "-cos(2*x)/2",
        "exp(x**2)",
        "(1 + 2) * 3 / 4",
        "x**(3/2)",
        "2**x",
        " 6 * 4",
        "sqrt(x) + .5*pi",
        "-x**-2",
    ],
)
def test_plain_expressions_are_scored(text):
    assert scores.is_plain_expression(text)


@pytest.mark.parametrize(
    "text",
    ["x.func", "f(x)", "x(2)", "a1", "1e9", "1j", "'x'", "x[0]", "x if x else x", "x = 1", "1, 2", "", "lambda: x",
     "9**9**9", "(9**9)**9", "x**201", "not x", "E(1)", "__import__"],
)  # fmt: skip
def test_other_expressions_are_not(text):
    assert not scores.is_plain_expression(text)


@pytest.mark.parametrize(
    ("name", "is_right", "is_wrong"),
    [
        ("game_of_life_halting", str.lower, lambda reference: "True" if reference == "False" else "False"),
        ("coin_flip", lambda reference: f" {reference}", lambda reference: "0" if float(reference) > 0.001 else "2"),
        ("coin_flip", lambda reference: f"{float(reference):e}", lambda reference: "1e999999999"),
        ("complex_arithmetic", lambda reference: reference, lambda reference: "nan"),
        ("spell_backward", str.upper, lambda reference: "not " + reference),
        ("prime_factorization", lambda reference: reference.replace(" ", ""), lambda reference: "two"),
    ],
)
def test_known_faults_of_scorers_are_mended(library, name, is_right, is_wrong):
    for seed in range(8):
        reference = library.score(name, None, {}, seed, "")["reference"]

        assert library.score(name, None, {}, seed, is_right(reference))["score"] == 1.0
        assert library.score(name, None, {}, seed, is_wrong(reference))["score"] == 0.0


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("gcd", ["-{}", "{}5", "{}.5", "1/{}", "{}/2", "7,{}", "{},000", "x{}"], ["{}", "= {}.", "it is {}, I think"]),
        ("acre", ["not{}", "{}e"], ["{}", "it is {}"]),
        ("list_functions", ["1{}", "{}2"], ["{}", "so {}"]),
    ],
)
def test_a_solution_that_is_part_of_another_word_or_number_earns_nothing(library, name, wrong, right):
    reference = library.score(name, None, {}, 4, "")["reference"]
    scores_of = [[library.score(name, None, {}, 4, text.format(reference))["score"] for text in texts]
                 for texts in (wrong, right)]  # fmt: skip

    assert scores_of[0] == [0.0] * len(wrong)
    assert min(scores_of[1]) > 0.05
    assert scores_of[1][0] == 1.0


def test_a_difficulty_of_codeio_stays_with_its_own_dataset():
    alone, beside = Datasets(), Datasets()
    easy, hard = {"difficulty": 6}, {"difficulty": 8}
    beside.task("codeio", None, easy, 1)
    beside.task("codeio", None, hard, 1)

    assert beside.task("codeio", None, easy, 2) == alone.task("codeio", None, easy, 2)


@pytest.mark.parametrize("minus", ["\N{MINUS SIGN}", "\N{EN DASH}", "\N{FULLWIDTH HYPHEN-MINUS}"])
def test_each_kind_of_minus_is_a_sign(library, minus):
    references = [library.score("chain_sum", None, {}, seed, "")["reference"] for seed in range(8)]
    answers = [minus + text.removeprefix("-") for text in references]
    scored = [library.score("chain_sum", None, {}, seed, answer)["score"] for seed, answer in enumerate(answers)]

    assert [score == 1.0 for score in scored] == [text.startswith("-") for text in references]
    assert {text.startswith("-") for text in references} == {True, False}


def test_a_list_still_earns_the_librarys_partial_credit(library):
    reference = library.score("spiral_matrix", None, {}, 3, "")["reference"]

    assert library.score("spiral_matrix", None, {}, 3, f"[{', '.join(reference.split())}]")["score"] == 0.1


def test_kept_datasets_and_tasks_are_bounded(monkeypatch):
    monkeypatch.setattr(datasets, "MOST_DATASETS", 3)
    monkeypatch.setattr(datasets, "MOST_TASKS", 5)
    library = Datasets()
    questions = [library.task("gcd", None, {"max_value": 100 + n}, n)["question"] for n in range(9)]

    assert (len(library._datasets), len(library._tasks)) == (3, 5)
    assert [library.task("gcd", None, {"max_value": 100 + n}, n)["question"] for n in range(9)] == questions


@pytest.mark.parametrize("name", sorted(CURRICULA.keys() & set(NAMES) - REFUSED_LEVELS))
def test_a_curriculum_has_a_second_level_that_differs_from_the_first(name):
    first, second = (datasets.make_config(name, level, {}, 1) for level in (0, 1))

    assert first != second


@pytest.mark.parametrize("name", sorted(REFUSED_LEVELS))
def test_a_level_that_the_library_refuses_is_an_error_with_its_reason(name):
    with pytest.raises(ValueError, match=rf"level=1, settings=\{{\}} of {name}: m.* must be .*\. Change them"):
        datasets.make_config(name, 1, {}, 1)
