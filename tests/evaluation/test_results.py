"""Summaries, intervals, the table, the plot, and one observation for a person."""

import itertools
import math
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from openenv.core.env_server.types import Observation
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.evaluation import EpisodeResult, Summary, medal_table, replies_table, show_openenv_observation, summarize
from openenv.evaluation.intervals import EpisodeOutcome, mean_and_interval, pass_at_k, wilson_interval
from openenv.evaluation.plots import plot_summaries, summaries_figure
from openenv.evaluation.tables import ranked


def episodes(outcome: EpisodeOutcome, num: int, reward: float, steps: int = 2) -> list[EpisodeResult]:
    counted = Counter({("hard 16", "hit"): 1})
    return [
        EpisodeResult(
            seed=i, total_reward=reward, success_return=1.0, num_steps=steps, outcome=outcome, decisions=counted
        )
        for i in range(num)
    ]


def named(name: str, num_won: int, num_lost: int) -> Summary:
    return summarize(name, episodes("won", num_won, 1.0) + episodes("lost", num_lost, -1.0))


def printed(*summaries: Summary) -> str:
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(medal_table(summaries))
    return console.export_text()


def test_rates_leave_invalid_episodes_out_and_count_them() -> None:
    summary = summarize(
        "p",
        episodes("won", 4, 1.0)
        + episodes("push", 1, 0.0)
        + episodes("lost", 3, -1.0)
        + episodes("unparseable", 2, -1.0, steps=0)
        + episodes("invalid", 90, 0.0, steps=50),
    )

    assert (summary.num_episodes, summary.num_invalid, summary.num_unparseable) == (10, 90, 2)
    assert (summary.win_rate, summary.push_rate, summary.num_lost) == (0.4, 0.1, 3)
    assert (summary.mean_return, summary.mean_steps) == (pytest.approx(1 / 8), 1.6)  # those given up have no return
    assert summary.decisions == {("hard 16", "hit"): 10}


@pytest.mark.finding("a success is what the environment declares")
def test_without_a_declared_success_there_is_a_mean_return_and_no_rate(tmp_path: Path) -> None:
    played = [EpisodeResult(seed=i, total_reward=float(i), num_steps=1, outcome="ended") for i in range(4)]
    summary = summarize("p", played)
    text = printed(summary)

    assert (summary.declares_success, summary.mean_return) == (False, 1.5)
    assert math.isnan(summary.win_rate)
    assert "+1.500" in text
    assert not any(word in text for word in ("success", "push", "no finished game", "no return"))
    assert "success" not in plot_summaries([summary], tmp_path / "plot.svg").read_text()


@pytest.mark.finding("a reply is read as people read it, and one that was cut off is counted")
def test_replies_that_were_cut_off_are_counted_with_the_setting_to_raise() -> None:
    cut = EpisodeResult(seed=0, total_reward=0.0, num_steps=1, outcome="lost", num_replies=3, num_cut_off_replies=2)
    summary = summarize("model", [cut, cut])
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    table = replies_table([summary])
    console.print(table)

    assert summary.num_cut_off_replies == 4
    assert "raise --max-tokens" in console.export_text()


def test_nothing_valid_has_no_rates() -> None:
    summary = summarize("p", episodes("invalid", 3, 0.0))

    assert math.isnan(summary.win_rate)
    assert math.isnan(summary.mean_return)
    assert summary.win_interval == (0.0, 1.0)
    assert summary.return_interval == (-math.inf, math.inf)


def test_a_policy_without_a_finished_game_is_shown_as_such(tmp_path: Path) -> None:
    summaries = [
        named("good", 3, 1),
        summarize("broken", episodes("invalid", 3, 0.0)),
        summarize("mute", episodes("unparseable", 3, 0.0)),
        summarize("single", episodes("won", 1, 1.0)),
    ]

    text = printed(*summaries)

    assert text.count("no finished game") == 2  # broken has no rate and no steps
    assert text.count("no return") == 2  # broken and mute
    assert "nan" not in text
    assert "inf" not in text
    plot = plot_summaries(summaries, tmp_path / "plot.svg").read_text()
    assert "no finished game" in plot
    assert "no return" in plot


@pytest.mark.parametrize(
    ("successes", "trials", "interval"),
    [
        (50, 50, (0.92865, 1.0)),
        (0, 10, (0.0, 0.27753)),
        (5, 10, (0.23659, 0.76341)),
        (4328, 10000, (0.42311, 0.44254)),
    ],
)
def test_wilson_intervals_are_the_known_ones(successes: int, trials: int, interval: tuple[float, float]) -> None:
    assert wilson_interval(successes, trials) == pytest.approx(interval, abs=1e-4)


def test_intervals_hold_the_truth_95_times_of_100() -> None:
    rng = Random(0)
    covered_rate = covered_mean = 0
    for _ in range(1000):
        values = [float(rng.random() < 0.3) for _ in range(100)]
        low, high = wilson_interval(int(sum(values)), 100)
        covered_rate += low <= 0.3 <= high
        low, high = mean_and_interval(values)[1]
        covered_mean += low <= 0.3 <= high

    assert 925 <= covered_rate <= 975
    assert 920 <= covered_mean <= 975


def test_medals_go_to_the_best_three_and_equals_share() -> None:
    summaries = [named("d", 1, 9), named("a", 9, 1), named("b", 9, 1), named("c", 5, 5), named("e", 0, 10)]

    assert [(place, s.name) for place, s in ranked(summaries)] == [(1, "a"), (1, "b"), (3, "c"), (4, "d"), (5, "e")]
    lines = [line for line in printed(*summaries).splitlines() if line.startswith("│")]
    assert [line.split("│")[1].strip() for line in lines] == ["🥇", "🥇", "🥉", "4", "5"]


def test_the_table_shows_rates_with_intervals_and_failures_only_where_there_are_some() -> None:
    text = printed(named("good", 5, 5))
    broken = printed(summarize("bad", [*episodes("invalid", 2, 0.0), *episodes("won", 1, 1.0)]))

    assert "50.0% (23.7-76.3)" in text
    assert "+0.000 ± 0.653" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "invalid" not in text
    assert "invalid" in broken


def test_a_policy_without_valid_episodes_ranks_last() -> None:
    nothing = summarize("broken", episodes("invalid", 2, 0.0))

    assert [s.name for _, s in ranked([nothing, named("poor", 0, 10)])] == ["poor", "broken"]


@pytest.mark.parametrize("name", ["plot.png", "deeper/plot.svg"])
def test_the_plot_is_written(tmp_path: Path, name: str) -> None:
    summaries = [named("a", 9, 1), named("a", 5, 5), summarize("one", episodes("won", 1, 1.0))]

    path = plot_summaries(summaries, tmp_path / name)

    assert path.stat().st_size > 5_000
    if path.suffix == ".svg":
        assert "error" not in path.read_text()[:200]


def test_the_plot_shows_points_of_which_the_best_policy_has_the_rightmost() -> None:
    worst, best = named("worst", 1, 9), named("best", 9, 1)

    rates, returns = summaries_figure([worst, best]).axes
    points = returns.lines[0]

    assert list(returns.patches) == []  # a bar from 0 would be the longest for the worst return
    assert [float(x) for x in points.get_xdata()] == pytest.approx([best.mean_return, worst.mean_return])
    assert [label.get_text() for label in rates.get_yticklabels()] == ["best", "worst"]


def test_nothing_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_summaries([], tmp_path / "plot.png")


def test_an_observation_is_printed_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    show_openenv_observation(OpenSpielEnvironment("catch").reset(seed=3))

    shown = capsys.readouterr().out
    assert "  | ..x.." in shown
    assert "legal_actions: [0 LEFT, 1 STAY, 2 RIGHT]" in shown
    assert "... 50 values]" in shown
    assert "metadata.seed: 3" in shown


def test_any_environments_observation_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_openenv_observation(Observation(reward=1.5))

    assert capsys.readouterr().out == "Observation\n  done: False\n  reward: 1.5\n"


@pytest.mark.parametrize(
    ("trials", "successes", "k"), [(4, 0, 4), (4, 1, 4), (6, 2, 3), (5, 5, 1), (7, 3, 2), (5, 3, 5)]
)
def test_pass_at_k_is_the_share_of_draws_of_k_trials_with_a_success(trials: int, successes: int, k: int) -> None:
    draws = list(itertools.combinations([True] * successes + [False] * (trials - successes), k))

    assert pass_at_k(trials, successes, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_k_needs_k_trials(k: int) -> None:
    with pytest.raises(ValueError, match=f"k={k}"):
        pass_at_k(3, 1, k)
