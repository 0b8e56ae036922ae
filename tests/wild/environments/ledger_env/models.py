"""Messages of the ledger, which change how pydantic reads and writes them."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from openenv.core.env_server.mcp_types import ListToolsAction
from openenv.core.env_server.types import Action, Observation


class Pay(Action):
    """Pay an amount."""

    type: Literal["pay"] = "pay"
    amount: int


class Read(Action):
    """Read the balance."""

    type: Literal["read"] = "read"


_adapter: TypeAdapter = TypeAdapter(Annotated[Pay | Read | ListToolsAction, Field(discriminator="type")])


class LedgerAction(Action):
    """One of them: the environment gets a Pay, a Read or a ListToolsAction, and never a LedgerAction."""

    @classmethod
    def model_validate(cls, obj: Any, **kwargs: Any) -> Action:  # type: ignore[override]
        return _adapter.validate_python(obj)

    @classmethod
    def model_json_schema(cls, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        return {"title": "LedgerAction", **_adapter.json_schema(**kwargs)}


class LedgerObservation(Observation):
    """What is known, without the fields that are not."""

    model_config = ConfigDict(extra="forbid")
    balance: int | None = None
    receipt: str | None = None

    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        kwargs.setdefault("exclude_none", True)
        return super().model_dump(**kwargs)
