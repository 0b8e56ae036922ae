"""The promises of the server and the client, each with a way to break it."""

from tests.mutations.mutation import Mutation, argument_of, condition_on, item, returned, storing_in

SERVER = "openenv.core.env_server"
SESSION = "openenv.core.client.session:ClientSession"
FIRST_IN_FLIGHT = 'next(iter(self._in_flight), "")'
LOST = "tests/core/client/test_lost_connections.py"
LIMITS = "tests/core/env_server/execution/test_time_limits.py"
VALIDITY = "tests/core/env_server/sessions/test_validity.py"
PROMISES = {
    "request ids: a repeat is done again": Mutation(
        f"{SERVER}.sessions.response_cache:ResponseCache.put", storing_in("results"), "pass", LOST
    ),
    "request ids: a repeat over HTTP is done again": Mutation(
        f"{SERVER}.http.routes:_add_verbs.step", argument_of("SessionRequest", 2), "None",
        "tests/core/env_server/http/test_routes.py",
    ),
    "request ids: a client takes any response for its own": Mutation(
        f"{SESSION}.receive", argument_of("pop"), FIRST_IN_FLIGHT, "tests/core/client/test_session.py"
    ),
    "request ids: an asynchronous client takes responses in order": Mutation(
        f"{SESSION}.receive", argument_of("pop"), FIRST_IN_FLIGHT, "tests/core/client/test_modes.py"
    ),
    "grace period: a session ends with its connection": Mutation(
        f"{SERVER}.sessions.manager:SessionManager.detach", condition_on("reconnect_grace_s"), "False", LOST
    ),
    "grace period: a session without a client never ends": Mutation(
        f"{SERVER}.sessions.manager:SessionManager.reap_idle", condition_on("reconnect_grace_s"), "False", LOST
    ),
    "time limit: none in threads": Mutation(
        f"{SERVER}.execution.env_thread:EnvThread._watch", condition_on("timeout_s"), "False",
        f"{LIMITS} -k CountingEnvironment",
    ),
    "time limit: none in coroutines": Mutation(
        f"{SERVER}.execution.executors:_await_with_timeout", argument_of("timeout"), "None",
        f"{LIMITS} -k AsyncEnvironment",
    ),
    "time limit: none in the event loop": Mutation(
        f"{SERVER}.execution.inline_timeout:_check", condition_on("deadline"), "False", f"{LIMITS} -k InlineEnvironment"
    ),
    "time limit: none in workers": Mutation(
        f"{SERVER}.execution.process_executor:ProcessExecutor._request", argument_of("timeout"), "None",
        f"{LIMITS} -k ProcessEnvironment",
    ),
    "validity: a truncated episode is reported as valid": Mutation(
        "openenv.core.wire.server_codec:extended_response_frame", condition_on("truncated"), "False", VALIDITY
    ),
    "validity: a failure of the environment is reported as the client's": Mutation(
        "openenv.core.wire.server_codec:extended_error_frame", item("validity"), '"refused"', VALIDITY
    ),
    "validity: an invalid episode is trained on": Mutation(
        "openenv.rl.algorithm.trajectory:Trajectory.valid", returned(), "True", "tests/rl/algorithm/test_batch.py"
    ),
}  # fmt: skip
