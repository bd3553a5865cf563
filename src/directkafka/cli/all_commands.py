"""All commands: who imports this module finds them in the application."""

from directkafka.cli import commands, control_commands, offset_commands, reset_command

__all__ = ["commands", "control_commands", "offset_commands", "reset_command"]
