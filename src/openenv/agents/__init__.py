"""Agents' programs and language models that play environments by calling tools."""

from openenv.agents.adapter import (
    AgenticHarnessAdapter,
    HarnessError,
    HarnessNotRunningError,
    HarnessStartupError,
    HarnessTurnTimeoutError,
)
from openenv.agents.bridge import HarnessMCPBridge, build_bridge_server
from openenv.agents.config import HarnessConfig, HarnessTransport
from openenv.agents.environment import HarnessAction, HarnessEnvironment
from openenv.agents.events import (
    HarnessClientMessage,
    HarnessEvent,
    HarnessEventType,
    HarnessResponse,
    events_to_metadata,
)
from openenv.agents.process import HarnessProcess
from openenv.agents.rollout import (
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
from openenv.agents.sessions import (
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
from openenv.agents.tools import resolve_tool_conflicts
from openenv.agents.training import TrainingTrace, TrainingTurn

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
