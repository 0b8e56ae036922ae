"""Commands that would run programs, leave the work tree, or reach other repositories: refused, and without effect."""

import os

import pytest

from tests.envs.extras import require_programs

require_programs("git")

from openenv.envs.git_env import GitAction
from openenv.envs.git_env.server.allowed import ALLOWED, Refused, checked_git_arguments, words_of
from openenv.envs.git_env.server.environment import GitEnvironment

PWN = "touch {canary}"
REFUSED = [
    # options before the subcommand
    ["-c", f"alias.x=!{PWN}", "x"],
    ["-c", f"core.fsmonitor={PWN}", "status"],
    ["-c", f"core.pager={PWN}", "log"],
    ["--exec-path=.", "status"],
    ["-C", "..", "status"],
    ["-p", "log"],
    ["--git-dir=../origin.git", "log"],
    ["--work-tree=/", "status"],
    ["--config-env=core.pager=HOME", "log"],
    # subcommands that configure, run programs, or make other repositories
    ["config", "core.hooksPath", "hooks"],
    ["config", f"alias.x=!{PWN}"],
    ["bisect", "run", "touch", "{canary}"],
    ["bisect", "visualize"],
    ["bisect", "replay", "README.md"],
    ["filter-branch", "--tree-filter", PWN],
    ["submodule", "foreach", PWN],
    ["submodule", "add", f"ext::sh -c {PWN}"],
    ["difftool", "-x", PWN],
    ["mergetool"],
    ["daemon"],
    ["clone", f"ext::sh -c {PWN}", "x"],
    ["init", "x"],
    ["worktree", "add", "../x"],
    ["archive", f"--exec={PWN}", "--remote=origin", "HEAD"],
    ["upload-pack", "."],
    ["ls-remote", f"--upload-pack={PWN}", "origin"],
    ["send-email", "x"],
    ["update-index", "--cacheinfo", "120000,x,y"],
    ["hash-object", "-w", "/etc/passwd"],
    ["apply", "--unsafe-paths", "x"],
    ["hook", "run", "x"],
    ["maintenance", "run"],
    ["gc"],
    ["help", "log"],
    ["x"],
    ["LOG"],
    ["remote", "add", "x", "../x"],
    ["remote", "set-url", "origin", f"ext::sh -c {PWN}"],
    ["remote", "show", "./x"],
    ["remote", "show", f"ext::sh -c {PWN}"],
    ["reflog", "expire", "--expire=now", "--all"],
    ["stash", "store", "x"],
    # options that run programs
    ["rebase", "-x", PWN, "HEAD~1"],
    ["rebase", "--exec", PWN, "HEAD~1"],
    ["rebase", f"--exec={PWN}", "HEAD~1"],
    ["rebase", "--exe", PWN, "HEAD~1"],
    ["rebase", "-qx", PWN, "HEAD~1"],
    ["rebase", "-i", "HEAD~1"],
    ["rebase", "-s", "x", "HEAD~1"],
    ["merge", "-s", "x", "HEAD~1"],
    ["merge", "--strategy=x", "HEAD~1"],
    ["push", f"--receive-pack={PWN}", "origin"],
    ["push", "--receive-pack", PWN, "origin"],
    ["push", f"--exec={PWN}", "origin"],
    ["push", "origin", f"--exec={PWN}"],
    ["push", "--", "origin", f"--exec={PWN}"],
    ["push", "--repo=../x"],
    ["fetch", f"--upload-pack={PWN}", "origin"],
    ["fetch", "--upload-pa", PWN, "origin"],
    ["fetch", "origin", "-uo", PWN],
    ["pull", "origin", f"--upload-pack={PWN}"],
    ["pull", "--", "origin", f"--upload-pack={PWN}"],
    ["grep", f"-O{PWN}", "x"],
    ["grep", f"--open-files-in-pager={PWN}", "x"],
    ["grep", "--no-index", "x"],
    ["grep", "-f", "/etc/passwd"],
    ["diff", "--ext-diff"],
    ["log", "--ext-diff", "-p"],
    ["show", "--textconv"],
    ["commit", "-S", "-m", "x"],
    ["commit", "--gpg-sign=x", "-m", "x"],
    ["commit", "-e"],
    ["tag", "-s", "x"],
    ["tag", "-u", "x", "y"],
    ["tag", "-v", "x"],
    ["log", "--show-signature"],
    ["branch", "--edit-description"],
    ["add", "-e"],
    ["add", "-p"],
    ["log", "--help"],
    ["commit", "--template=x"],
    # files outside the work tree, and of the repository itself
    ["diff", "--no-index", "/etc/passwd", "README.md"],
    ["diff", "/etc/passwd", "README.md"],
    ["diff", "README.md", "../origin.git/config"],
    ["diff", "--", "README.md", "../origin.git/config"],
    ["diff", "--output={canary}"],
    ["diff", "--output", "{canary}"],
    ["log", "--output={canary}"],
    ["show", "--output={canary}"],
    ["diff", "-O/etc/passwd"],
    ["commit", "-F", "/etc/passwd"],
    ["commit", "--file=/etc/passwd"],
    ["merge", "-F", "/etc/passwd", "x"],
    ["tag", "-F", "/etc/passwd", "x"],
    ["blame", "--contents", "/etc/passwd", "README.md"],
    ["add", "--pathspec-from-file=/etc/passwd"],
    ["add", "/etc/passwd"],
    ["add", "../origin.git/config"],
    ["add", "a/../../x"],
    ["mv", "README.md", "../README.md"],
    ["mv", "README.md", ".git/config"],
    ["mv", "README.md", ".GIT/config"],
    ["mv", "-f", ".git/config", "x"],
    ["rm", "-rf", ".git"],
    ["clean", "-fdx", ".git/"],
    ["checkout", "HEAD", "--", ".git/config"],
    ["show", "HEAD:../../x"],
    ["rev-parse", "--show-toplevel"],
    ["rev-parse", "--git-path", "config"],
    # other repositories
    ["push", "../x", "main"],
    ["push", "./x", "main"],
    ["push", "-", "main"],
    ["push", "/tmp/x", "main"],
    ["push", "https://example.com/x", "main"],
    ["push", f"ext::sh -c {PWN}", "main"],
    ["push", "--", f"ext::sh -c {PWN}", "main"],
    ["fetch", f"ext::sh -c {PWN}"],
    ["fetch", "ssh://-oProxyCommand=x/y"],
    ["fetch", "evil"],
    ["pull", "evil", "main"],
    ["pull", "-X", "origin", "evil"],
    # sizes
    ["log", "--format=%<(100000000)%s"],
    ["for-each-ref", "--format", "%(align:100000000)%(refname)%(end)"],
    ["diff", "--stat=100000000"],
    ["tag", "-n100000"],
    [],
]  # fmt: skip


@pytest.fixture(scope="module")
def played():
    env = GitEnvironment()
    env.reset(seed=1, kind="branch_commit", max_steps=200)
    yield env
    env.close()


def step(env, command, content=""):
    return env.step(GitAction(command=command, content=content))


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: " ".join(words)[:60])
def test_a_command_is_refused_with_the_argument_named(words):
    with pytest.raises(Refused, match=r"^(git |argument |--?\w+)") as refused:
        checked_git_arguments(words)

    assert len(str(refused.value)) < 1_500


def test_a_refused_command_has_exit_code_126_and_no_effect(tmp_path):
    canary = tmp_path / "canary"
    env = GitEnvironment()
    before = env.reset(seed=1, kind="branch_commit", max_steps=200).status
    for words in REFUSED:
        seen = step(env, ["git", *(word.replace("{canary}", str(canary)) for word in words)])
        assert seen.exit_code == 126, words
        assert seen.stderr.startswith("refused: "), words
    env.close()

    assert not canary.exists()
    assert seen.status == before


@pytest.mark.parametrize("name", ALLOWED)
def test_every_subcommand_refuses_an_option_that_is_not_listed(name):
    for option in ("--exec=x", "--upload-pack=x", "--help", "--output=x", "-O", "-h"):
        with pytest.raises(Refused, match=f"git {name} "):
            checked_git_arguments([name, option])


@pytest.mark.parametrize(
    "command",
    [
        "git commit -am 'Fix /etc and ../x'",
        "git commit -m --amend -m x",
        "git log --oneline -5 main..origin/main",
        "git log HEAD~2.. -- README.md",
        "git diff main...topic/a..b --stat",
        "git show HEAD:docs/guide.txt",
        "git show :/Start",
        "git checkout -b topic origin/main",
        "git reset --hard main@{1}",
        "git restore --source=HEAD~1 -- README.md",
        "git push -u origin HEAD:refs/heads/topic",
        "git bisect start HEAD HEAD~3",
        "git tag -a v1.0.0 -m 'Release 20260102'",
        "git stash push -m 'half done'",
        "git rebase --onto main HEAD~1",
        "git cherry-pick -x main~1",
        "git log -n 3 --format='%h %s'",
    ],
)
def test_usual_commands_are_allowed(command):
    program, *words = words_of(command)

    assert program == "git"
    assert checked_git_arguments(words) == words


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "command: it is empty"),
        ("git 'status", "No closing quotation. Close the quotes"),
        (["git", "log", "\0"], "a character that no argument may have"),
        (["git", "log", "\ud800"], "a character that no argument may have"),
        (["git", "add", *["x"] * 60], "at most 60 are allowed"),
        ("ls -la", "command 'ls': expected git, list_files, read_file, write_file, finish. No shell runs it"),
        ("sh -c 'git status'", "command 'sh'"),
        ("read_file", "read_file: expected 1 argument, got 0"),
        ("read_file a b", "read_file: expected 1 argument, got 2. Put quotes around one with blanks"),
        ("finish a b", "finish: expected 0 or 1 arguments, got 2"),
    ],
)
def test_other_commands_are_refused_with_the_remedy(played, command, message):
    seen = step(played, command)

    assert seen.exit_code == 126
    assert message in seen.stderr


def test_no_shell_reads_a_command(played, tmp_path):
    touch = f"touch {tmp_path}/x"
    commands = [f"git status; {touch}", f"git status && {touch}", f"git log $({touch})", f"git log `{touch}`"]
    for command in (*commands, f"git log > {tmp_path}/x", f"git log | tee {tmp_path}/x"):
        assert step(played, command).exit_code != 0

    assert list(tmp_path.iterdir()) == []


def test_content_comes_with_write_file_only(played):
    assert "git takes no content" not in step(played, "git status").stderr
    assert "list_files takes no content" in step(played, "list_files", "x").stderr


@pytest.mark.parametrize("command", ["read_file", "write_file", "list_files"])
@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../origin.git/config", "docs/../../x", "docs/./x", ".git/config", ".GIT/config", ".git./config",
     "docs/.git/hooks/x", ".git", "git~1/x", "docs//x", "link", "link/passwd", "folder_link/x", "a\\b",
     "a\nb", "x" * 201],
)  # fmt: skip
def test_no_path_leaves_the_work_tree_or_enters_the_repository(played, command, path):
    work = played._workspace.work
    for name, target in (("link", "/etc/passwd"), ("folder_link", "/etc")):
        if not os.path.lexists(work / name):
            (work / name).symlink_to(target)
    config = (work / ".git/config").read_text()
    seen = step(played, [command, path], "x" if command == "write_file" else "")

    assert seen.exit_code == 126
    assert "path=" in seen.stderr
    assert (work / ".git/config").read_text() == config


def test_a_file_in_the_way_and_too_many_files_are_refused(played):
    assert "a folder has that name" in step(played, "write_file docs", "x").stderr
    assert "a file is in the way" in step(played, "write_file README.md/x", "x").stderr
    assert "there is no such file" in step(played, "read_file docs").stderr
    assert "there is no such folder" in step(played, "list_files README.md").stderr
    work = played._workspace.work
    for number in range(200):
        (work / f"many{number}").write_text("")
    assert "there are 200 files, which is the most" in step(played, "write_file more.txt", "x").stderr
    for number in range(200):
        (work / f"many{number}").unlink()


def test_written_attributes_modules_and_hooks_run_nothing(tmp_path):
    canary = tmp_path / "canary"
    env = GitEnvironment()
    env.reset(seed=1, kind="branch_commit", max_steps=200)
    files = {
        ".gitattributes": "* filter=x diff=x merge=x\n",
        ".gitmodules": f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "x"\n\tupdate = !touch {canary}\n',
        ".gitconfig": f"[core]\n\tfsmonitor = touch {canary}\n[alias]\n\tst = !touch {canary}\n",
        "hooks/pre-commit": f"#!/bin/sh\ntouch {canary}\n",
        "evil/HEAD": "ref: refs/heads/main\n",
        "evil/config": f"[core]\n\tbare = true\n\tfsmonitor = touch {canary}\n\thooksPath = {tmp_path}\n",
        "evil/objects/x": "",
        "evil/refs/x": "",
    }
    for path, content in files.items():
        assert step(env, ["write_file", path], content).exit_code == 0
    for command in ("git add -A", "git status", "git commit -m x", "git diff HEAD~1", "git log -p", "git switch -c y",
                    "git push origin y", "git fetch origin", "git checkout main", "git merge y", "git stash -u",
                    "git blame README.md", "git grep x"):  # fmt: skip
        assert step(env, command).exit_code in (0, 1), command
    assert step(env, "git fetch evil").exit_code == 126
    env.close()

    assert not canary.exists()


def test_a_committed_symbolic_link_is_checked_out_as_a_text(played):
    workspace = played._workspace
    workspace.run(["reset", "-q", "--hard"])
    target = workspace.work / "target.txt"
    target.write_text("/etc/passwd")
    name = workspace.run(["hash-object", "-w", "target.txt"]).stdout.strip()
    workspace.run(["update-index", "--add", "--cacheinfo", f"120000,{name},leak"])
    assert step(played, "git commit -m leak").exit_code == 0
    assert step(played, "git checkout HEAD -- leak").exit_code == 0

    assert not (workspace.work / "leak").is_symlink()
    assert step(played, "read_file leak").stdout == "/etc/passwd"
