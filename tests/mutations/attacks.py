"""Mends of faults that attacks and failing machines showed."""

from tests.mutations.mutation import Mutation, code, condition_on, constant, item, keyword_of, returned, storing_in

MENDS: dict[str, list[Mutation]] = {
    "a second run of the same name leaves the first one alone": [
        Mutation(
            "openenv.rl.setup:setup_training", code("running(config.run_dir)"), "contextlib.nullcontext()",
            "tests/rl/test_setup.py",
        ),
    ],
    "the login page is limited in size and attempts": [
        Mutation(
            "openenv.core.env_server.http.auth:AccessControl._max_bytes", condition_on("_is_open"), "False",
            "tests/web/test_login.py",
        ),
        Mutation(
            "openenv.web.routes:add_login.login", code("limit.wait_s(address)"), "0", "tests/web/test_login.py"
        ),
    ],
    "no command line holds a secret": [
        Mutation(
            "openenv.cli.hub.account:key_values", code("is_secret and not equals and pair in os.environ"), "False",
            "tests/cli/hub/test_push.py",
        ),
        Mutation(
            "openenv.hosting.sandbox.box_spec:bubblewrap_command", returned(),
            '[*command, *(part for pair in spec.environment.items() for part in ("--setenv", *pair)), '
            '"--remount-ro", "/", "--seccomp", str(filter_fd), "--"]', "tests/hosting/sandbox/test_sandbox.py",
        ),
    ],
    "very many wrong fields cost little": [
        Mutation(
            "openenv.core.wire.server_codec:invalid_message", condition_on("_MAX_COUNTED"), "True",
            "tests/core/wire/test_server_codec.py",
        ),
    ],
    "deadlines hold while bytes arrive, and responses have a size": [
        Mutation(
            "openenv.core.client.blocking_transport:BlockingConnection.wait_for", condition_on("received_at"),
            "False", "tests/core/client/test_odd_servers.py --timeout 10",
        ),
        Mutation(
            "openenv.auto.schema_client:_answer",
            code("await async_whole_response(http, _MAX_BYTES, method=method, url=path, timeout=timeout, **request)"),
            "await http.request(method, path, timeout=timeout, **request)",
            "tests/auto/test_environment.py -k complete --timeout 10",
        ),
        Mutation(
            "openenv.auto.schema_client:_answer", code("_refuse_deep(path, found)"), "None",
            "tests/auto/test_environment.py -k odd_schema",
        ),
    ],
    "a line feed alone ends a line": [
        Mutation(
            "openenv.formats.json_text:json_lines", code(r"read_utf8(path).split('\n')"),
            "[*read_utf8(path).splitlines(), '']", "tests/formats/test_json_text.py",
        ),
    ],
    "one bad run folder harms no other": [
        Mutation(
            "openenv.rl.reports.run_files:open_run_file",
            code("Path(real).is_relative_to(os.path.realpath(path.parent))"), "True",
            "tests/pages/test_run_folders.py -k link",
        ),
        Mutation(
            "openenv.rl.reports.run_files:open_run_file", code("stat.S_ISREG(os.fstat(file.fileno()).st_mode)"),
            "True", "tests/pages/test_run_folders.py -k pipe",
        ),
        Mutation(
            "openenv.pages.run_folders:RunFolders._row", code("Exception"), "OSError", "tests/pages/test_run_folders.py"
        ),
    ],
    "limits of a sandbox hold for the session, also without a control group": [
        Mutation(
            "openenv.hosting.sandbox.watch:_limits_of_files_passed", condition_on("session_files"), "False",
            "tests/hosting/sandbox/test_checked_limits.py -k files",
        ),
        Mutation(
            "openenv.hosting.sandbox.watch:_limits_passed", condition_on("memory_bytes"), "False",
            "tests/hosting/sandbox/test_checked_limits.py -k memory",
        ),
        Mutation(
            "openenv.hosting.sandbox.watch:_limits_passed", condition_on("num_threads"), "False",
            "tests/hosting/sandbox/test_checked_limits.py -k threads",
        ),
        Mutation(
            "openenv.hosting.sandbox.host:Host.__init__", keyword_of("deny_filter", "has_memory_group"), "True",
            "tests/hosting/sandbox/test_checked_limits.py -k without_a_name",
        ),
    ],
    "a step of which most groups were lost is played again": [
        Mutation(
            "openenv.rl.loop:TrainingLoop._play", code("len(lost) <= len(indices) / 2"), "True",
            "tests/rl/test_loop.py",
        ),
    ],
    "null is null: lost episodes and rewards that were not given": [
        Mutation(
            "openenv.rl.reports.transcripts:_transcript", item("return"), "trajectory.game_return or 0.0",
            "tests/rl/reports/test_transcripts.py",
        ),
        Mutation(
            "openenv.rl.algorithm.trajectory:Trajectory", constant("game_return"), "0.0",
            "tests/rl/algorithm/test_rewards.py",
        ),
        Mutation(
            "openenv.evaluation.policy_player:_RunningEpisode", constant("total_reward"), "0.0",
            "tests/evaluation/test_declared_success.py",
        ),
    ],
    "a full disk is named with its path": [
        Mutation(
            "openenv.rl.reports.run_state:failure_kept", condition_on("ENOSPC"), "True",
            "tests/rl/reports/test_run_state.py",
        ),
    ],
    "programs of an inline environment end with their server": [
        Mutation(
            "openenv.hosting.serving.program_exit:children_end_at_exit",
            code("descendants_of(os.getpid()) - before"), "()", "tests/hosting/serving/test_program_exit.py",
        ),
    ],
    "each accepted action happened once, or the client knows that it may not have": [
        Mutation(
            "openenv.core.env_server.sessions.response_cache:ResponseCache.put", storing_in("results"), "pass",
            "tests/core/env_server/sessions/test_exactly_once.py -k inline",
        ),
    ],
}  # fmt: skip
"""By rows of `tests/findings.py`."""
