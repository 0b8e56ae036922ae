"""`openenv fork`: copy a Space of the Hugging Face Hub into the user's account."""

import typer

from openenv.cli.hub.account import hub_api, hub_errors, key_values, require_space_id, user_name

EXAMPLE = "Example: `openenv fork owner/my-env --private --set-env LEVEL=high`"
_FREE = "cpu-basic"


def fork(
    source_space: str = typer.Argument(help="Copy this Space, OWNER/NAME."),
    repo_id: str | None = typer.Option(
        None, "--repo-id", "-r", help="Copy it to this Space, OWNER/NAME (default: the same name, of your account)."
    ),
    private: bool = typer.Option(False, "--private", help="Make the copy private (default: public)."),
    set_env: list[str] = typer.Option(
        [],
        "--set-env",
        "-e",
        help="Set a public variable of the copy, as KEY=VALUE; may be repeated.",
        show_default=False,
    ),
    set_secret: list[str] = typer.Option(
        [],
        "--set-secret",
        "--secret",
        "-s",
        help="Set the secret KEY of the copy to the environment variable of that name, or KEY=VALUE; may be repeated.",
        show_default=False,
    ),
    hardware: str = typer.Option(
        _FREE,
        "--hardware",
        "-H",
        help="Request this hardware, such as t4-medium (default cpu-basic).",
        show_default=False,
    ),
) -> None:
    """Copy a Space of the Hub, with its history, and print the URL of the copy. Needs the extra `hub` and a token
    (`hf auth login`, or HF_TOKEN). The secrets of the source are not copied."""
    require_space_id("SOURCE_SPACE", source_space)
    if repo_id is not None:
        require_space_id("--repo-id", repo_id)
    variables = key_values("--set-env", set_env)
    secrets = key_values("--set-secret", set_secret, is_secret=True)
    api = hub_api()
    user_name(api)  # ends the command without a valid token
    with hub_errors(f"cannot copy {source_space}"):
        made = api.duplicate_repo(
            source_space, repo_id, repo_type="space", private=private,
            space_hardware=hardware,  # type: ignore[arg-type]  # the Hub knows newer ones
            space_variables=_entries(variables), space_secrets=_entries(secrets),
        )  # fmt: skip
    typer.echo(f"forked {source_space} to {api.endpoint}/spaces/{made.repo_id}")


def _entries(values: dict[str, str]) -> list[dict[str, str]] | None:
    return [{"key": key, "value": value} for key, value in values.items()] or None
