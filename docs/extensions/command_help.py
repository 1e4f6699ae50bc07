"""The directive `hwheel-help`: what `hwheel --help` prints, or `hwheel COMMAND --help`."""

import os
from typing import Any
from unittest.mock import patch

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from hwheel.cli.main import make_parser


def help_of(command: str | None) -> str:
    """The help of a command, as it is on a terminal of 100 columns without colours."""
    with patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
        parser: Any = make_parser()
        if command:
            parser = next(action for action in parser._actions if action.choices).choices[command]
        return str(parser.format_help())


class CommandHelp(SphinxDirective):
    """A block of text with the help of the command that is its argument, or of `hwheel` itself."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """What docutils calls."""
        words = help_of(self.arguments[0] if self.arguments else None)
        return [nodes.literal_block(words, words, language="text")]


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("hwheel-help", CommandHelp)
    return {"parallel_read_safe": True}
