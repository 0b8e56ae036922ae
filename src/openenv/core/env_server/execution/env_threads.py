"""Which thread each new environment of a server gets."""

import logging

from openenv.core.env_server.execution.env_thread import EnvThread
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.runner.env_spec import EnvSpec

log = logging.getLogger(__name__)

SHORT_CALL_S = 0.01
"""An environment whose calls take longer may block."""
SHORT_MEAN_S = 0.0005
NUM_SHORT_CALLS = 200
"""So many short calls in a row show that the calls of a class are short; twice as many after each long one."""
MAX_SHORT_CALLS = 1 << 14
"""At most so many are required."""


class EnvThreads:
    """Assigns threads to the environments of one server.

    An environment has a thread of its own, until the calls of its class have shown to be short. From then on new
    environments share a thread, because 32 threads that wait for one another cost more than most steps. An environment
    always stays in the thread that made it, unless a call of another one blocks that. A class that declares `execution`
    shares no thread. A library that allows one thread, and one ready instance, always have the same.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        self._only: EnvThread | None = None
        """The thread of all environments, while they may need one: also while their class is unknown."""
        self._shared = EnvThread(self._note, self._abandon, is_shared=True)
        self._num_short = 0
        self._total_s = 0.0
        self._num_required = NUM_SHORT_CALLS

    def assign(self) -> EnvThread:
        """The thread of a new environment."""
        spec = self._spec
        if spec.is_one_instance or not spec.is_known or spec.environment_cls.REQUIRES_SINGLE_THREAD_EXECUTOR:
            if self._only is None:
                self._only = EnvThread(self._note, self._abandon)
            return self._only
        self._only = None
        is_shared = self._num_short >= self._num_required and not _declares_execution(spec.environment_cls)
        return self._shared if is_shared else EnvThread(self._note, self._abandon)

    def _abandon(self, thread: EnvThread) -> None:
        """Leave a thread to the call that has outlived its limit.

        New environments get another thread, but for the server's one ready instance.
        """
        if thread.is_shared:
            thread.split_off()
        elif not self._spec.is_one_instance:
            thread.abandon()
            if thread is self._only:
                self._only = None

    def _note(self, took_s: float) -> None:
        """Learn from the seconds of a call."""
        if took_s >= SHORT_CALL_S:
            if self._num_short >= self._num_required:
                log.info(
                    "a call of %s took %.3f s: its next sessions have threads of their own", self._spec.name, took_s
                )
            self._num_required = min(2 * self._num_required, MAX_SHORT_CALLS)
            self._num_short, self._total_s = 0, 0.0
        elif self._num_short < self._num_required:
            self._num_short += 1
            self._total_s += took_s
            if self._num_short == self._num_required:
                if self._total_s > self._num_short * SHORT_MEAN_S:
                    self._num_short, self._total_s = 0, 0.0
                else:
                    log.info("the calls of %s are short: its next sessions share a thread", self._spec.name)


def _declares_execution(cls: type[Environment]) -> bool:
    return any("execution" in vars(base) for base in cls.__mro__ if base is not Environment)
