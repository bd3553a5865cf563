"""All commands: who imports this module finds them in the application."""

from directkafka.cli import (
    checkpoint_command,
    commands,
    control_commands,
    dashboard_command,
    offset_commands,
    reset_command,
)

__all__ = [
    "checkpoint_command",
    "commands",
    "control_commands",
    "dashboard_command",
    "offset_commands",
    "reset_command",
]
