"""Proofs about difficulty: how often episodes from one start differ, and how starts differ from each other."""

import statistics

from openenv.certification.subject import Proof, Subject
from openenv.core.utils import run_async_safely
from openenv.evaluation.evaluator import evaluate
from openenv.evaluation.intervals import EpisodeResult
from openenv.evaluation.policy_player import EpisodeObserver
from openenv.evaluation.quality.target import passed, warned

_STARTS = 32
_GROUP = 8
_FEW_SIGNALS = 0.1


class _Results(EpisodeObserver):
    def __init__(self) -> None:
        self.returns: dict[int, float] = {}

    def on_end(self, episode: int, result: EpisodeResult) -> None:
        if result.outcome != "invalid":
            self.returns[episode] = result.total_reward or 0.0


def signal(subject: Subject) -> Proof:
    """Random play of one start earns different returns often enough, so that GRPO has something to compare.

    Eight episodes are played from each of 32 starts, or of fewer where they take long. The share of starts with
    different returns is that of the groups that teach anything in the first steps of training (Shao et al. 2024,
    arXiv:2402.03300, section 4.1.2).
    """
    fewer = subject.proof_s / (_GROUP * subject.episode_s) if subject.episode_s else _STARTS
    starts = int(max(_GROUP, min(_STARTS, fewer)))
    players = [_Results() for _ in range(_GROUP)]
    run_async_safely(
        evaluate(
            subject.served.base_url,
            subject.served.client,
            [subject.random_policy(seed) for seed in range(_GROUP)],
            starts,
            subject.seed,
            reset_kwargs=subject.reset,
            text=subject.served.text,
            max_steps=subject.max_steps,
            observers_for=lambda place, _: [players[place]],
        )
    )
    groups = [[one.returns[start] for one in players if start in one.returns] for start in range(starts)]
    groups = [group for group in groups if len(group) > 1]
    if not groups:
        return Proof(name="signal", result=warned("no episode of random play ended", "see the server's log"))
    share = sum(max(group) > min(group) for group in groups) / len(groups)
    means = sorted(map(statistics.fmean, groups))
    low, middle, high = (means[round(part * (len(means) - 1))] for part in (0.1, 0.5, 0.9))
    seen = (
        f"{share:.0%} of {len(groups)} starts have different returns in {_GROUP} random episodes; mean returns of the "
        f"starts: {low:+.3g} (10 %), {middle:+.3g} (half), {high:+.3g} (90 %)"
    )
    figures = {"share": share, "low": low, "middle": middle, "high": high, "starts": len(groups)}
    if share < _FEW_SIGNALS:
        remedy = "reward progress, begin nearer to the goal, or teach the model first (warm_start)"
        return Proof(name="signal", result=warned(seen, remedy), figures=figures)
    return Proof(name="signal", result=passed(seen), figures=figures)
