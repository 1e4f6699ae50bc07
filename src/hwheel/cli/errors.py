"""What ends the command."""

from hwheel_core import HwheelError


class CommandError(HwheelError):
    """Something that the user can put right. The command prints it as one line and exits with status 2."""
