"""The configuration of a gateway before replicas of a server, for nginx and for Envoy.

The id of a session begins with the name of its replica (`ServerConfig.replica`). A request that names a session goes to
that replica and to no other, whether it answers or not. Every other request goes to the replica with the fewest
connections that answers; one that stops refuses new sessions with 503, and the next one gets the request. So a gateway
keeps no state: any number of them agree, and one that is started again knows every session.

Plain HTTP without the header X-Session-Id acts on a default session of the caller's address, which to a server behind a
gateway is the gateway's. Such verbs are refused.
"""

from collections.abc import Mapping
from typing import Any, Literal

import yaml

from openenv.core.wire.constants import NEW_SESSION, SESSION_HEADER

Proxy = Literal["nginx", "envoy"]
HEALTH_PATH = "/gateway/health"
"""Answers 200 as long as the gateway itself runs."""
IDLE_S = 3600
"""How long a connection may be silent: as long as a session may be idle by default."""
_CONNECT_S = 2
_TYPE = "type.googleapis.com/envoy.extensions."
_ANY = "any_replica"
"""Of the replicas together. No replica is called so: names have no underscore."""
_VERBS = "/(reset|step|state)"
_NO_SESSION = (
    '{"code": "SESSION_ERROR", "message": "behind a gateway a request names its session: send the header '
    f'{SESSION_HEADER}: {NEW_SESSION} to /reset, then the id in its response"}}'
)


def gateway_config(proxy: Proxy, replicas: Mapping[str, str], *, listen: str, run_dir: str = "/tmp") -> str:
    """The configuration file.

    Args:
        proxy: the program that reads it.
        replicas: the address of each replica by its name, such as `{"echo-env-0": "echo-env-0:8000"}`. nginx looks up
            host names once, when it starts.
        listen: address and port of the gateway, such as 0.0.0.0:8000.
        run_dir: folder of the files that nginx writes.
    """
    if proxy == "nginx":
        return _nginx(replicas, listen, run_dir)
    return yaml.safe_dump(_envoy(replicas, listen), sort_keys=False)


def _nginx(replicas: Mapping[str, str], listen: str, run_dir: str) -> str:
    routes = "\n".join(f"    ~^{name}\\. {name};" for name in replicas)
    servers = "\n".join(f"    server {address} max_fails=1 fail_timeout=5s;" for address in replicas.values())
    upstreams = "\n".join(
        f"  upstream {name} {{ server {address} max_fails=0; }}" for name, address in replicas.items()
    )
    temporary = "\n".join(
        f"  {name}_temp_path {run_dir}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""\
pid {run_dir}/nginx.pid;
error_log stderr warn;
worker_processes 2;
worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
{temporary}
  access_log off;
  server_tokens off;
  default_type application/json;
  client_max_body_size 0;
  map $http_upgrade $connection_header {{ default upgrade; "" ""; }}
  map $uri $session_in_path {{ ~^/sessions/([^/]+)$ $1; default ""; }}
  # the id of a session begins with the name of its replica
  map "$arg_session_id$http_x_session_id$http_mcp_session_id$session_in_path" $replica {{
{routes}
    default {_ANY};
  }}
{upstreams}
  upstream {_ANY} {{
    zone {_ANY} 64k;
    least_conn;
{servers}
  }}
  proxy_http_version 1.1;
  proxy_set_header Host $http_host;
  proxy_set_header Upgrade $http_upgrade;
  proxy_set_header Connection $connection_header;
  proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Proto $scheme;
  proxy_buffering off;
  proxy_socket_keepalive on;
  proxy_connect_timeout {_CONNECT_S}s;
  proxy_read_timeout {IDLE_S}s;
  proxy_send_timeout {IDLE_S}s;
  proxy_next_upstream error timeout http_503;
  server {{
    listen {listen};
    location / {{ proxy_pass http://$replica; }}
    location ~ ^{_VERBS}$ {{
      if ($http_x_session_id = "") {{ return 400 '{_NO_SESSION}'; }}
      # a stopping server's 503 moves a reset to the next one; a session has one server only
      proxy_next_upstream error timeout http_503 non_idempotent;
      proxy_pass http://$replica;
    }}
    location = {HEALTH_PATH} {{ return 200 '{{"status": "healthy"}}'; }}
  }}
}}
"""


def _envoy(replicas: Mapping[str, str], listen: str) -> dict[str, Any]:
    clusters = [_cluster(name, [address]) for name, address in replicas.items()]
    everyone = _cluster(_ANY, list(replicas.values())) | {
        "lb_policy": "LEAST_REQUEST",
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "health_checks": [
            {
                "http_health_check": {"path": "/ready"},
                "interval": "1s",
                "no_traffic_interval": "1s",
                "timeout": "1s",
                "unhealthy_threshold": 2,
                "healthy_threshold": 1,
            }
        ],
    }
    manager = {
        "@type": f"{_TYPE}filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "gateway",
        "use_remote_address": True,
        "normalize_path": True,
        "stream_idle_timeout": f"{IDLE_S}s",
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{_TYPE}filters.http.router.v3.Router", "suppress_envoy_headers": True},
            }
        ],
        "route_config": {"virtual_hosts": [{"name": "gateway", "domains": ["*"], "routes": _routes(replicas)}]},
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    listener = {"name": "gateway", "address": _address(listen), "filter_chains": [{"filters": filters}]}
    return {"static_resources": {"listeners": [listener], "clusters": [*clusters, everyone]}}


def _routes(replicas: Mapping[str, str]) -> list[dict[str, Any]]:
    lacks_session = {"name": SESSION_HEADER, "present_match": True, "invert_match": True}
    return [
        {"match": {"path": HEALTH_PATH}, "direct_response": _response(200, '{"status": "healthy"}')},
        {
            "match": {"safe_regex": {"regex": _VERBS}, "headers": [lacks_session]},
            "direct_response": _response(400, _NO_SESSION),
            "response_headers_to_add": [
                {
                    "header": {"key": "content-type", "value": "application/json"},
                    "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
                }
            ],
        },
        *({"match": match, "route": _route(name)} for name in replicas for match in _session_matches(name)),
        {"match": {"prefix": "/"}, "route": _route(_ANY) | {"retry_policy": _NEXT_REPLICA}},
    ]


def _session_matches(replica: str) -> list[dict[str, Any]]:
    """The places in which a request names a session of a replica."""
    begins = {"string_match": {"prefix": f"{replica}."}}
    return [
        {"prefix": "/", "query_parameters": [{"name": "session_id", **begins}]},
        {"prefix": "/", "headers": [{"name": SESSION_HEADER, **begins}]},
        {"prefix": "/", "headers": [{"name": "mcp-session-id", **begins}]},
        {"prefix": f"/sessions/{replica}."},
    ]


_NEXT_REPLICA = {
    "retry_on": "connect-failure,refused-stream,retriable-status-codes",
    "retriable_status_codes": [503],
    "num_retries": 5,
    "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.25s"},
    "host_selection_retry_max_attempts": 5,
    "retry_host_predicate": [
        {
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": {"@type": f"{_TYPE}retry.host.previous_hosts.v3.PreviousHostsPredicate"},
        }
    ],
}


def _route(cluster: str) -> dict[str, Any]:
    return {"cluster": cluster, "timeout": "0s"}


def _response(status: int, body: str) -> dict[str, Any]:
    return {"status": status, "body": {"inline_string": body}}


def _cluster(name: str, addresses: list[str]) -> dict[str, Any]:
    endpoints = [{"endpoint": {"address": _address(address)}} for address in addresses]
    most = 1 << 16  # the default of 1,024 would be the most sessions
    limits = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests", "max_retries"), most)
    return {
        "name": name,
        "type": "STRICT_DNS",
        "connect_timeout": f"{_CONNECT_S}s",
        "circuit_breakers": {"thresholds": [limits]},
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def _address(text: str) -> dict[str, Any]:
    host, _, port = text.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}
