"""What ends the command."""

from hwheel_core import HwheelError


class CommandError(HwheelError):
    """Something that the user can put right. The command prints it as one line, or two where the second says what to
    do, and exits with status 2. `details`: what --verbose shows.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.details = details
