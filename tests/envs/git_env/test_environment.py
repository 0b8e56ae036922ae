"""The git environment behind a real server: tasks, seeds, limits, snapshots, folders, and text."""

import os
import tempfile
from pathlib import Path
from random import Random

import pytest

from tests.envs.extras import require_programs

require_programs("git")

from openenv.core.errors import EnvironmentFault
from openenv.envs.git_env import GitAction, GitEnv, GitText
from openenv.envs.git_env.players import solution
from openenv.envs.git_env.server import git_process
from openenv.envs.git_env.server.app import app
from openenv.envs.git_env.server.environment import GitEnvironment
from openenv.envs.git_env.server.git_process import run_git
from openenv.envs.git_env.server.history import History
from openenv.envs.git_env.server.kinds import KINDS
from openenv.envs.git_env.server.repository import Workspace
from openenv.envs.git_env.solvers.committer import Committer

TEXT = GitText()


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def run(env, command, content=""):
    return env.step(GitAction(command=command, content=content))


def printed(env, command, content=""):
    """What a command has printed, which must succeed."""
    seen = run(env, command, content).observation
    assert seen.exit_code == 0, seen.stderr
    return seen.stdout


def solved(env, task):
    """The last result of the solver's commands."""
    results = []

    def use(*words, content=""):
        results.append(run(env, list(words), content))
        return results[-1].observation.stdout

    Committer(task, use).solve()
    return results[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_commands_solve_every_kind_of_task_and_nothing_done_earns_nothing(url, kind, level):
    with GitEnv(url) as env:
        first = env.reset(seed=level, kind=kind, level=level)
        assert (first.reward, first.done, first.observation.exit_code) == (None, False, None)
        result = solved(env, first.observation.task)
        assert (result.reward, result.done) == (1.0, True), result.observation.metadata
        assert set(result.observation.metadata["rubric"].values()) == {1.0}
        assert env.state().reward == 1.0

        env.reset(seed=level, kind=kind, level=level)
        result = run(env, "finish")
        assert (result.reward, result.done) == (0.0, True)


@pytest.mark.parametrize(
    ("command", "content", "part"),
    [
        ("git branch spare", "", "untouched"),
        ("git tag spare", "", "untouched"),
        ("git push origin main:spare", "", "untouched"),
        ("write_file spare.txt", "x\n", "clean"),
    ],
)
def test_what_was_not_asked_for_costs_the_reward_and_the_rubric_names_it(url, command, content, part):
    with GitEnv(url) as env:
        first = env.reset(seed=5, kind="amend_message").observation
        printed(env, command, content)
        result = solved(env, first.task)
        scores = result.observation.metadata["rubric"]

        assert result.reward == 0.0
        assert [name for name, score in scores.items() if score < 1] == [part]


def test_an_unfinished_merge_is_not_clean(url):
    with GitEnv(url) as env:
        first = env.reset(seed=5, kind="rebase_branch").observation
        branch = first.task.split("'")[1]
        printed(env, f"git merge --no-commit --no-ff {branch}")
        printed(env, "git restore --staged --worktree .")
        printed(env, "git clean -fd")
        assert run(env, "finish").observation.metadata["rubric"]["clean"] == 0.0


@pytest.mark.parametrize(
    ("kind", "wrong", "parts"),
    [
        ("amend_message", ["git commit --amend -m other"], {"message"}),
        ("squash_commits", ["git reset --soft HEAD~1", "git commit -m other"], {"parents", "message"}),
        ("undo_reset", ["git commit --allow-empty -m other"], {"restored"}),
        ("push_diverged", ["git push --force origin main"], {"kept", "content"}),
        ("push_diverged", ["git reset --hard HEAD~1", "git pull origin main"], {"commits", "content"}),
        ("delete_merged", [], {"deleted"}),
    ],
)
def test_a_wrong_end_earns_nothing_and_its_parts_say_what_is_wrong(url, kind, wrong, parts):
    with GitEnv(url) as env:
        env.reset(seed=1, kind=kind)
        for command in wrong:
            printed(env, command)
        result = run(env, "finish")
        failed = {name for name, score in result.observation.metadata["rubric"].items() if score < 1}

    assert (result.reward, failed) == (0.0, parts)


def test_an_answer_is_a_hash_or_its_first_seven_digits(url):
    with GitEnv(url) as env:
        task = env.reset(seed=3, kind="find_commit").observation.task
        right = _culprit(env, task)
        for answer, reward in ((right, 1.0), (right[:7].upper(), 1.0), (right[:6], 0.0), ("0" * 40, 0.0), ("", 0.0)):
            env.reset(seed=3, kind="find_commit")
            assert run(env, ["finish", answer]).reward == reward


def _culprit(env, task):
    """The whole hash of the commit that the solver finds."""
    short = Committer(task, lambda *words, content="": run(env, list(words)).observation.stdout).find_commit()
    return printed(env, f"git rev-parse {short}").strip()


def test_the_last_step_ends_the_episode_with_the_reward_of_the_repositories(url):
    with GitEnv(url) as env:
        task = env.reset(seed=2, kind="amend_message", max_steps=1).observation.task
        message = task.split("'")[1]
        result = run(env, ["git", "commit", "--amend", "-m", message])
        assert (result.done, result.reward, result.observation.steps_left) == (True, 1.0, 0)

        env.reset(seed=2, kind="amend_message", max_steps=2)
        assert (run(env, "git paint").done, run(env, "git status").done) == (False, True)


def test_equal_seeds_and_commands_give_equal_hashes_beside_other_sessions(url):
    def episode(env, seed):
        first = env.reset(seed=seed, level=2).observation
        result = solved(env, first.task)
        return first, result.observation

    def history(env, seed):
        env.reset(seed=seed, kind="push_diverged")
        printed(env, "git pull --no-rebase --no-edit origin main")
        printed(env, "write_file a.txt", "text\n")
        printed(env, "git add a.txt")
        printed(env, "git stash")
        return printed(env, "git log --all -g --format='%H %gd %ci %s'") + printed(
            env, "git log --all --graph --date=raw"
        )

    with GitEnv(url) as env, GitEnv(url) as other:
        before = episode(env, 6)
        kept = history(env, 6)
        other.reset(seed=6, kind="push_diverged")
        printed(other, "git push --force origin main")
        assert episode(env, 6) == before
        assert history(env, 6) == kept
        assert history(env, 7) != kept


def test_without_a_seed_the_metadata_names_the_one_that_was_drawn(url):
    with GitEnv(url) as env:
        first = env.reset().observation

        assert env.reset(seed=first.metadata["seed"]).observation == first


def test_a_restored_episode_continues_in_a_folder_of_its_own(url):
    with GitEnv(url) as env:
        task = env.reset(seed=8, kind="resolve_conflict", level=2).observation.task
        branch = task.split("'")[1]
        assert run(env, f"git merge {branch}").observation.exit_code == 1
        token, before = env.save(), env.state()
        (branch_env,) = env.fork(1)
        with branch_env:
            printed(branch_env, "git merge --abort")
        shown = run(env, "git status").observation
        env.reset(seed=1)
        env.restore(token)

        assert env.state() == before
        assert run(env, "git status").observation == shown
        printed(env, "git merge --abort")
        assert solved(env, task).reward == 1.0


def test_a_snapshot_of_large_repositories_is_refused(url, monkeypatch):
    monkeypatch.setattr("openenv.envs.git_env.server.repository.MOST_SNAPSHOT_BYTES", 1_000)
    with GitEnv(url) as env:
        env.reset(seed=1)
        with pytest.raises(EnvironmentFault, match="a snapshot has at most 1000"):
            env.save()
        assert printed(env, "git status")


def test_a_session_leaves_no_folder(url, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    env = GitEnvironment()
    env.reset(seed=1)
    env.reset(seed=2)
    assert len(list(tmp_path.iterdir())) == 1
    snapshot = env.save_state()
    env.load_state(snapshot)
    assert len(list(tmp_path.iterdir())) == 1
    env.close()
    assert list(tmp_path.iterdir()) == []


def test_a_long_output_is_cut_and_marked(url):
    with GitEnv(url) as env:
        env.reset(seed=1)
        printed(env, "write_file long.txt", "0123456789\n" * 1000)
        seen = run(env, "read_file long.txt").observation

        assert seen.is_cut
        assert seen.stdout.endswith("\n(7000 characters more)\n")
        assert not run(env, "read_file README.md").observation.is_cut


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_has_started():
    workspace = Workspace()
    history = History(Random(1), 1)
    history.begin()
    workspace.build(history, [])
    os.mkfifo(workspace.work / "pipe")  # git waits for the end of it, which never comes
    ended = run_git(["hash-object", "pipe"], workspace.folder, workspace.work, time_limit_s=0.2)
    after = workspace.run(["log", "--oneline"])
    workspace.close()

    assert (ended.exit_code, ended.is_cut, after.exit_code) == (124, False, 0)
    assert ended.stderr.endswith("the command took longer than 0.2 s and was ended\n")


def test_a_command_that_writes_too_much_is_ended(monkeypatch):
    monkeypatch.setattr(git_process, "_MOST_BYTES", 100)
    env = GitEnvironment()
    env.reset(seed=1)
    seen = env.step(GitAction(command="git log -p"))
    env.close()

    assert (seen.is_cut, seen.exit_code) == (True, 124)
    assert len(seen.stdout) > 100


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"kind": "paint"}, "kind='paint': expected one of any, branch_commit"),
        ({"level": 0}, "level=0: expected a whole number from 1 to 3"),
        ({"max_steps": 201}, "max_steps=201: expected a whole number from 1 to 200"),
        ({"size": 1}, "reset takes seed, episode_id, kind, level, max_steps; got size"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with GitEnv(url) as env:
        env.reset(seed=1)
        before = env.state()
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.state() == before
        assert printed(env, "git status")


def test_a_step_before_the_first_reset_is_an_error(url):
    with GitEnv(url) as env:
        with pytest.raises(EnvironmentFault, match=r"there is no repository yet\. Call reset\(\) first"):
            run(env, "git status")
        with pytest.raises(EnvironmentFault, match=r"there is no repository yet\. Call reset\(\) first"):
            env.save()


def test_the_text_shows_the_task_and_then_what_commands_print(url):
    with GitEnv(url) as env:
        first = env.reset(seed=1, kind="squash_commits").observation
        assert TEXT.describe(first) == f"{first.task}\nSteps left: 20. Status:\n## main...origin/main [ahead 2]"
        action = TEXT.parse("write_file a.txt\none\ntwo", first)
        assert action == GitAction(command="write_file a.txt", content="one\ntwo\n")
        seen = env.step(action).observation
        assert TEXT.describe(seen) == (
            "Exit code: 0\nwrote 8 bytes to a.txt\nSteps left: 19. Status:\n## main...origin/main [ahead 2]\n?? a.txt"
        )
        assert printed(env, "read_file a.txt") == "one\ntwo\n"
        for seed in range(30):
            reply, action = TEXT.random_reply(seen, Random(seed))
            assert TEXT.parse(reply, seen) == action
            assert TEXT.wording(action, seen) == reply


def test_a_reply_that_is_empty_or_too_long_names_no_command():
    for reply in ("", "  \n ", "git log " + "x" * 2_000, "write_file a\n" + "x" * 20_001):
        assert TEXT.parse(reply, None) is None
        assert "write a command of 1 to 2000 characters" in TEXT.problem(reply, None)
    assert TEXT.problem("git status", None) == ""


def test_the_measured_player_knows_the_solution_of_each_seed():
    assert solution(1, 5)[-1].command[0] == "finish"


def test_the_servers_own_settings_of_git_change_nothing(url, monkeypatch, tmp_path):
    config = tmp_path / "config"
    config.write_text(f"[core]\n\thooksPath = {tmp_path}\n[commit]\n\tgpgSign = true\n[alias]\n\tst = status\n")
    for name, value in {
        "GIT_CONFIG_GLOBAL": str(config), "HOME": str(tmp_path), "GIT_AUTHOR_NAME": "X", "GIT_DIR": str(tmp_path),
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "commit.gpgSign", "GIT_CONFIG_VALUE_0": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    hook = Path(tmp_path, "post-commit")
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    with GitEnv(url) as env:
        env.reset(seed=1)
        printed(env, "git commit --allow-empty -m note")
        assert printed(env, "git log -1 --format='%an %ae'") == "Agent agent@example.com\n"

    assert not os.path.exists(tmp_path / "ran")
