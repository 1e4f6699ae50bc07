"""What ends the command."""


class CommandError(Exception):
    """Something that the user can put right. The command prints it as one line and exits with status 2."""
