"""The cookie of a browser that has given a server's token once. It holds no token, and no script can read it."""

import hashlib
import hmac

LOGIN_PATH = "/web/login"
"""The page that asks for the token."""


class PageCookie:
    """The cookie of one token. Its name differs between tokens: the servers of one host share a browser's cookies."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        digest = hmac.new(self._token, b"the page of an OpenEnv server", hashlib.sha256).hexdigest()
        self._name, self._value = f"openenv_{digest[:12]}", digest[12:]

    def is_token(self, given: str) -> bool:
        """Whether a text is the server's token."""
        return hmac.compare_digest(given.strip().encode(), self._token)

    def is_in(self, header: str) -> bool:
        """Whether the header `Cookie` of a request has it."""
        pairs = (pair.strip().partition("=") for pair in header.split(";"))
        return any(name == self._name and hmac.compare_digest(value.encode(), self._value.encode())
                   for name, _, value in pairs)  # fmt: skip

    def header(self, scheme: str, root_path: str) -> str:
        """The header `Set-Cookie`. The browser keeps it until it closes, and sends it to this server's pages alone."""
        secure = "; Secure" if scheme == "https" else ""
        return f"{self._name}={self._value}; Path={root_path or '/'}; HttpOnly; SameSite=Strict{secure}"
