"""The application of the ledger, made by a function of its own module."""

from openenv.core.env_server.http_server import create_fastapi_app

from ..models import LedgerAction, LedgerObservation
from .environment import LedgerEnvironment

app = create_fastapi_app(LedgerEnvironment, LedgerAction, LedgerObservation, max_concurrent_envs=2)
