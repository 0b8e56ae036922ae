"""Mends of the reading of replies, of failed calls, forks, event loops, other systems, and formats of others."""

from tests.mutations.mutation import Mutation, code, condition_on, item, keyword_of, returned

MENDS: dict[str, list[Mutation]] = {
    "a reply is read as people read it, and one that was cut off is counted": [
        Mutation(
            "openenv.agents.llm.client:OpenAIClient._response", code('choice.get("finish_reason") == "length"'),
            "False", "tests/policies/test_language_model.py",
        ),
        Mutation(
            "openenv.agents.llm.messages:content_text", code('whole_characters("".join(map(str, texts)))'),
            "str(content)", "tests/policies/test_language_model.py",
        ),
        Mutation(
            "openenv.agents.llm.messages:content_text", condition_on("unknown"), "False",
            "tests/policies/test_language_model.py",
        ),
        Mutation(
            "openenv.evaluation.tables:replies_table", keyword_of("Table", "caption"), "None",
            "tests/evaluation/test_results.py",
        ),
        Mutation(
            "openenv.text.reading:after_thinking", condition_on("is_thought"), "False",
            "tests/text/test_replies.py -k thinking",
        ),
        Mutation(
            "openenv.text.mentions:plain_signs", returned(), "text", "tests/text/test_replies.py -k people_read_it"
        ),
        Mutation(
            "openenv.auto.message_classes:_described", item("examples"), "None", "tests/auto/test_message_classes.py"
        ),
    ],
    "a client knows its process and its event loop": [
        Mutation(
            "openenv.core.client.blocking_transport:BlockingSession.leave_to_parent", condition_on("_connection"),
            "False", "tests/core/client/test_forks.py -k refuses",
        ),
        Mutation(
            "openenv.core.client.http_transport:_HttpLifecycle.leave_to_parent", condition_on("_http"),
            "False", "tests/core/client/test_forks.py",
        ),
        Mutation(
            "openenv.core.utils:LoopThread.run", code("running = self._thread.submit(self._runner.run, whole)"),
            "return self._runner.run(whole)", "tests/integrations/trl/test_rollout_func.py",
        ),
        Mutation(
            "openenv.core.utils:run_async_safely", code("thread.run(coro)"), "thread._runner.run(coro)",
            "tests/rl/test_setup.py -k notebook",
        ),
    ],
    "one failed call ends one episode, and an evaluation goes on where it stopped": [
        Mutation(
            "openenv.agents.llm.http:_may_pass", code("failed in _RETRIED_STATUSES or failed >= 500"), "False",
            "tests/agents/llm/test_llm_client.py",
        ),
        Mutation(
            "openenv.agents.llm.http:_error_status", code("_failure_in(answer)"), "None",
            "tests/agents/llm/test_llm_client.py",
        ),
        Mutation(
            "openenv.agents.llm.http:_passing", returned(), "()", "tests/agents/llm/test_llm_client.py -k reset"
        ),
        Mutation(
            "openenv.policies.language_model:ChatEndpoint._reply", code("return CompletionFailed(str(error))"),
            "raise", "tests/cli/test_evaluate.py -k one_refused_request",
        ),
        Mutation(
            "openenv.cli.playing.saved_episodes:SavedEpisodes.known", code('episode.outcome != "invalid"'), "True",
            "tests/cli/test_evaluate.py -k one_refused_request",
        ),
        Mutation(
            "openenv.evaluation.episode_files.records:read_episodes", condition_on("lines"), "False",
            "tests/cli/test_evaluate.py -k killed",
        ),
    ],
    "proxies, other locales and systems without what Linux alone has do no harm": [
        Mutation(
            "openenv.core.net.http_clients:_made", condition_on("is_on_this_machine"), "False",
            "tests/core/net/test_http_clients.py -k without_the_proxy",
        ),
        Mutation(
            "openenv.hosting.command_line:_show_what_the_terminal_can", keyword_of("reconfigure", "errors"),
            '"strict"', "tests/cli/test_ascii_locale.py",
        ),
        Mutation(
            "openenv.formats.text_file:read_utf8", keyword_of("read_text", "encoding"), "None",
            "tests/cli/test_ascii_locale.py -k utf_8",
        ),
        Mutation(
            "openenv.core.env_server.execution.inline_timeout:start_watchdog", condition_on("hasattr"), "False",
            "tests/platforms/test_platforms.py -k trains",
        ),
    ],
    "formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML": [
        Mutation(
            "openenv.core.env_server.http.streamable_mcp:StreamableMcp._respond_one",
            code('method == "initialize"'), "False", "tests/core/env_server/http/test_mcp_clients.py",
        ),
        Mutation(
            "openenv.integrations.gymnasium:SingleEnv._info", code("range(start, start + number)"), "range(number)",
            "tests/integrations/test_gymnasium.py",
        ),
        Mutation(
            "openenv.core.wire.message_fields:read_message", code("cls.model_computed_fields"), "{}",
            "tests/core/wire/test_message_fields.py",
        ),
        Mutation(
            "openenv.core.wire.message_fields:read_message", code("cls.__subclasses__()"), "()",
            "tests/core/wire/test_message_fields.py",
        ),
        Mutation(
            "openenv.formats.json_text:json_text", keyword_of("dumps", "allow_nan"), "True",
            "tests/rl/reports/test_report.py",
        ),
        Mutation(
            "openenv.formats.yaml_text:_StrictLoader.flatten_mapping", code("first is not key_node"), "False",
            "tests/formats/test_yaml_text.py -k written_twice",
        ),
    ],
}  # fmt: skip
"""By rows of `tests/findings.py`."""
