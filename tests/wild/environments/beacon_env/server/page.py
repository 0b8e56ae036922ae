"""A page of its own, and a builder of a tab for Gradio, which only a server with Gradio calls."""

from openenv.core.env_server.types import EnvironmentMetadata


def page_html(metadata: EnvironmentMetadata | None) -> str:
    return f"<html><body><h1>{metadata.name if metadata else 'Beacon'} at sea</h1></body></html>"


def build_tab(web_manager, action_fields, metadata, is_chat_env, title, quick_start_md):
    import gradio as gr

    with gr.Blocks() as blocks:
        gr.Markdown(title)
    return blocks
