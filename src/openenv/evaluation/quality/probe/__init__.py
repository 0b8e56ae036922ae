"""Tools of the checks: a raw client, recorded episodes, sample policies, and how to serve an environment's folder."""
