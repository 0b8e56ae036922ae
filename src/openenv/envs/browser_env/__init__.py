"""Web tasks of MiniWoB++ in Chromium: buttons, forms, menus, mail and shops, with the mouse and the keyboard."""

from openenv.envs.browser_env.client import BrowserEnv
from openenv.envs.browser_env.models import BrowserAction, BrowserObservation, BrowserState, PageElement
from openenv.envs.browser_env.text import BrowserText

__all__ = ["BrowserAction", "BrowserEnv", "BrowserObservation", "BrowserState", "BrowserText", "PageElement"]
