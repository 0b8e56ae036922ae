"""The server of the DeepMind Control Suite; it needs dm_control, which reads how to draw when it is imported."""

from openenv.envs.rendering import draw_without_display

draw_without_display()
