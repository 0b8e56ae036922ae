"""A light that is switched, with pages and routes of its own."""

from .client import BeaconEnv
from .models import BeaconAction, BeaconObservation, Colour

__all__ = ["BeaconAction", "BeaconEnv", "BeaconObservation", "Colour"]
