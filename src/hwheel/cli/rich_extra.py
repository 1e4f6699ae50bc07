"""rich draws, and is an extra."""

from hwheel.cli.errors import CommandError


def require_rich() -> None:
    """Raises CommandError where rich is not installed, before anything has been run for nothing."""
    try:
        import rich  # noqa: F401
    except ImportError:
        raise CommandError("this needs rich to draw with; install it by: pip install 'hwheel[cli]'") from None
