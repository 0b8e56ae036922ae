"""Agents' programs and language models that play environments by calling tools."""

from openenv.core.harness.adapter import (
    AgenticHarnessAdapter,
    HarnessError,
    HarnessNotRunningError,
    HarnessStartupError,
    HarnessTurnTimeoutError,
)
from openenv.core.harness.bridge import HarnessMCPBridge, build_bridge_server
from openenv.core.harness.config import HarnessConfig, HarnessTransport
from openenv.core.harness.environment import HarnessAction, HarnessEnvironment
from openenv.core.harness.events import (
    HarnessClientMessage,
    HarnessEvent,
    HarnessEventType,
    HarnessResponse,
    events_to_metadata,
)
from openenv.core.harness.process import HarnessProcess
from openenv.core.harness.rollout import (
    RESERVED_TOOL_NAMES,
    CLIHarnessAdapter,
    HarnessAdapter,
    HarnessRolloutResult,
    HarnessRunLimits,
    MCPHarnessAdapter,
    ModelStep,
    ModelStepResult,
    RolloutEvent,
    ToolTraceEntry,
    build_harness_rollout_func,
)
from openenv.core.harness.sessions import (
    LoopOwningSession,
    Message,
    ResourceSession,
    ResourceSessionFactory,
    SessionMCPBridge,
    StepEnvSessionAdapter,
    ToolResult,
    TraceEntry,
    TrainableSession,
    VerifyResult,
)
from openenv.core.harness.tools import resolve_tool_conflicts
from openenv.core.harness.training import TrainingTrace, TrainingTurn

__all__ = [
    "RESERVED_TOOL_NAMES",
    "AgenticHarnessAdapter",
    "CLIHarnessAdapter",
    "HarnessAction",
    "HarnessAdapter",
    "HarnessClientMessage",
    "HarnessConfig",
    "HarnessEnvironment",
    "HarnessError",
    "HarnessEvent",
    "HarnessEventType",
    "HarnessMCPBridge",
    "HarnessNotRunningError",
    "HarnessProcess",
    "HarnessResponse",
    "HarnessRolloutResult",
    "HarnessRunLimits",
    "HarnessStartupError",
    "HarnessTransport",
    "HarnessTurnTimeoutError",
    "LoopOwningSession",
    "MCPHarnessAdapter",
    "Message",
    "ModelStep",
    "ModelStepResult",
    "ResourceSession",
    "ResourceSessionFactory",
    "RolloutEvent",
    "SessionMCPBridge",
    "StepEnvSessionAdapter",
    "ToolResult",
    "ToolTraceEntry",
    "TraceEntry",
    "TrainableSession",
    "TrainingTrace",
    "TrainingTurn",
    "VerifyResult",
    "build_bridge_server",
    "build_harness_rollout_func",
    "events_to_metadata",
    "resolve_tool_conflicts",
]
