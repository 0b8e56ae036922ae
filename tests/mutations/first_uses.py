"""Mends of faults that users met on their first day."""

from tests.mutations.mutation import Mutation, TextMutation, code, condition_on, keyword_of

MENDS: dict[str, list[Mutation | TextMutation]] = {
    "an environment of any name is played to its end, and the fields of an action are an action": [
        Mutation(
            "openenv.core.env_client:EnvClient._step_payload",
            code("not isinstance(fields, Mapping) or not issubclass(action_cls, BaseModel)"), "True",
            "tests/core/client/test_modes.py",
        ),
        Mutation(
            "openenv.auto.auto_action:AutoAction.from_env",
            code("GenericAction if source.info is None else source.info.action_class"),
            "find_environment(name).action_class", "tests/auto/test_discovery.py",
        ),
        Mutation(
            "openenv.core.env_server.interfaces:Environment.__init_subclass__",
            code("setattr(cls, verb, _asynchronous(twin))"), "None", "tests/core/env_server/test_interfaces.py",
        ),
    ],
    "a success is what the environment declares": [
        Mutation(
            "openenv.core.outcomes:declared_success",
            code("float(declared) if is_success_return(declared) else None"), "ANY_POSITIVE",
            "tests/evaluation/test_declared_success.py",
        ),
        Mutation(
            "openenv.evaluation.intervals:Summary.win_rate", condition_on("declares_success"), "True",
            "tests/evaluation/test_results.py",
        ),
    ],
    "arrays work from the first line, or their author learns which type to write": [
        Mutation(
            "openenv.core.env_server.runner.field_types:_numpy_problem",
            code("set(_numpy_types(field.annotation))"), "set()", "tests/core/env_server/runner/test_env_spec.py",
        ),
        Mutation(
            "openenv.core.wire.boxes:Box.checked", code("self.shape is not None and array.shape != self.shape"),
            "False", "tests/core/wire/test_boxes.py",
        ),
    ],
    "an environment of tools is checked by its tools": [
        Mutation(
            "openenv.evaluation.quality.checks.protocol:reachable",
            code('await listed_tools(http, schemas["action"])'), "()", "tests/evaluation/quality/test_tools.py",
        ),
    ],
    "a recording holds what its replay needs": [
        Mutation(
            "openenv.evaluation.replay:read_recording", code('head.get("options", [])'), "[]",
            "tests/cli/test_replay.py",
        ),
    ],
    "a run that cannot learn ends at once, and one that made no step has failed": [
        Mutation(
            "openenv.rl.random_play:require_signal",
            code("len(returns) > 1 or number < EPISODES_TO_MEASURE"), "True",
            "tests/rl/test_setup.py -k always_ends_alike",
        ),
        Mutation(
            "openenv.rl.run:_failure", code("not progress.step and training.config.trainer.training.steps"), "False",
            "tests/rl/test_setup.py -k makes_no_step",
        ),
        Mutation(
            "openenv.rl.evaluation.comparison:Comparison._evaluate",
            code("not episodes or budget.spent_s < deadline_s"), "True",
            "tests/rl/test_setup.py -k share_of_the_time",
        ),
    ],
    "training needs no file, and printed commands run": [
        Mutation(
            "openenv.cli.train:_run_of",
            code('what.endswith(_YAML) or (Path(what).is_file() and not what.endswith(".py"))'), "True",
            "tests/cli/training/test_train_without_file.py",
        ),
    ],
    "the tests of a new environment run as its README prints them": [
        TextMutation(
            "openenv/cli/templates/environment/pyproject.toml.template", 'pythonpath = [".."]', "",
            "tests/cli/authoring/test_init.py -k command",
        ),
    ],
    "a lost server and Ctrl-C have a line at once, with how to go on": [
        Mutation(
            "openenv.core.client.session:Reconnection.allows_retry", condition_on("_LOGGED_UNTIL"), "False",
            "tests/core/client/test_session.py",
        ),
        Mutation(
            "openenv.cli.playing.evaluate:evaluate", condition_on("KeyboardInterrupt"), "False",
            "tests/cli/test_evaluate.py -k that_fails",
        ),
        Mutation(
            "openenv.cli.train:_train", code("KeyboardInterrupt"), "SystemExit",
            "tests/cli/training/test_train.py",
        ),
    ],
    "a server has a first page, loads nothing from elsewhere, and names a used port": [
        Mutation(
            "openenv.hosting.serving.server:serve", condition_on("host"), "False",
            "tests/cli/test_serve.py -k port_in_use",
        ),
        Mutation(
            "openenv.hosting.serving.server:serve",
            code("running.on_listening = partial(announce_app, running.config.app, host, port)"),
            "announce_app(running.config.app, host, port)", "tests/cli/test_serve.py -k cannot_serve",
        ),
        Mutation(
            "openenv.core.env_server.http.routes:environment_app", code("FastAPIOffline"), "FastAPI",
            "tests/web/test_play_routes.py",
        ),
        Mutation("openenv.web.routes:_add_lead", condition_on("is_root"), "False", "tests/web/test_play_routes.py"),
    ],
    "pages fit their window, name the game, and lead with what a person looks at": [
        TextMutation(
            "openenv/rl/reports/report.css", "table, tbody, tr, td { display: block; }", "",
            "tests/pages/test_pictures.py -k report_of_a_run",
        ),
        TextMutation(
            "openenv/pages/assets/runs.js", 'at("some").hidden = runs.length === 0;', 'at("some").hidden = false;',
            "tests/pages/test_pictures.py -k runs_empty",
        ),
        TextMutation(
            "openenv/web/templates/play.html",
            "{% block tab_title %}{{ title }}{% if game %}: {{ game }}{% endif %}{% endblock %}", "",
            "tests/web/test_pictures.py -k blackjack",
        ),
    ],
    "the command line has a version and a doctor, and shows each default once": [
        Mutation("openenv.cli.main:_version", condition_on("is_wanted"), "False", "tests/cli/test_main.py"),
        Mutation("openenv.cli.doctor:_extras", code("install_line(extra)"), '""', "tests/cli/test_main.py"),
        Mutation(
            "openenv.cli.authoring.init:init", keyword_of("Option", "show_default"), "True", "tests/cli/test_main.py"
        ),
    ],
    "what is not there or not read is an error with the next step": [
        Mutation(
            "openenv.auto.resolver:resolve", code("name.startswith(('.', '/', '~'))"), "False",
            "tests/auto/test_discovery.py",
        ),
        Mutation(
            "openenv.rl.config_file:hint_at_models", code("_near_models(place)"), "[]",
            "tests/rl/planning/test_config_text.py",
        ),
        Mutation(
            "openenv.core.env_server.http.route_class:_invalid_body", code("isinstance(error.body, bytes)"), "False",
            "tests/core/env_server/http/test_routes.py",
        ),
        Mutation(
            "openenv.core.utils:check_type", code("not isinstance(value, kinds)"), "False",
            "tests/core/test_arguments.py",
        ),
    ],
    "remedies are true": [
        Mutation(
            "openenv.rl.algorithm.learning_signal:legal_reply_remedy", code("config.max_minutes is None"), "True",
            "tests/rl/algorithm/test_learning_signal.py",
        ),
        Mutation(
            "openenv.rl.signals.hacking_signals", code('_Signal("completions/repetition", _grown_by_a_fifth)'),
            '_Signal("completions/repetition", _grown_by_a_fifth), _Signal("entropy", _doubled_or_halved)',
            "tests/rl/signals/test_hacking_signals.py",
        ),
        Mutation(
            "openenv.evaluation.quality.checks.determinism:other_seeds",
            code("passed(f'{_OTHER_SEEDS} seeds give the same episode of random play: it has no randomness, "
                 "or random play sees none')"),
            "passed(f'{_OTHER_SEEDS} seeds give the same episode: it has no randomness')",
            "tests/evaluation/quality/test_suite.py",
        ),
    ],
    "each environment of a file has its own messages": [
        Mutation(
            "openenv.core.env_server.runner.env_spec:_find", condition_on("_has_other_environments"), "False",
            "tests/core/env_server/runner/test_env_spec.py",
        ),
    ],
    "TRL's rollouts warn when no reply names a legal action": [
        Mutation(
            "openenv.integrations.trl.rollout_func:RolloutFunc._warn_without_actions", condition_on("_CALLS_TO_WARN"),
            "False", "tests/integrations/trl/test_rollout_func.py",
        ),
    ],
}  # fmt: skip
"""By rows of `tests/findings.py`."""
