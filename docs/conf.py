"""Sphinx settings for `make docs`, which needs an installed hwheel and no network."""

import re
import tomllib
from pathlib import Path
from typing import Union

from sphinx.ext.autodoc.mock import _MockObject

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

project = PROJECT["name"]
author = copyright = PROJECT["authors"][0]["name"]
version = release = PROJECT["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxarg.ext"]
exclude_patterns = ["pictures/*.py"]
default_role = "code"  # `name` in a docstring
smartquotes = False  # most text in quotes is to be typed
highlight_language = "text"  # an indented block is the output of an example
myst_heading_anchors = 4  # links to headings, as on GitHub

# Every reference to a name of hwheel must exist. Names of other projects have no page here, because their inventories
# would have to be downloaded.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!hwheel\.).*"),
    ("py:.*", r"hwheel\.\w+\.\w+\.\w+"),  # type variables of private modules
    ("py:class", r"hwheel\.asyncio\.Wheel\w+EventLoop"),  # the base of EventLoop
]

# Stand-ins for the large extras: autodoc needs their names, not their code. Annotations such as `str | DataFrame` are
# evaluated, and Sphinx's stand-ins lack the operator.
autodoc_mock_imports = ["google", "matplotlib", "pandas", "py4j", "pyarrow", "pyspark"]
_MockObject.__or__ = lambda self, other: Union[self, other]  # noqa: UP007
_MockObject.__ror__ = lambda self, other: Union[other, self]  # noqa: UP007
napoleon_numpy_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
maximum_signature_line_length = 90
python_use_unqualified_type_names = True

html_theme = "furo"
html_baseurl = "https://hwheel.github.io/hwheel/stable/"
html_title = f"{project} {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": f"{PROJECT['urls']['Repository']}/",
    "source_branch": "main",
    "source_directory": "docs/",
}

# The repository's own pages and the site exist once this version is released.
linkcheck_ignore = [rf"{PROJECT['urls']['Repository']}/.*", r"https://hwheel\.github\.io/.*"]
linkcheck_anchors_ignore_for_url = [r"https://github\.com/.*"]  # a script adds these anchors
linkcheck_timeout = 20


def drop_signature(app, what, name, member, options, lines):
    """Drop the signature that Cython writes into the first line of a docstring."""
    if lines and lines[0].startswith(name.rpartition(".")[2] + "("):
        del lines[0]


def link_methods(app, what, name, member, options, lines):
    """Turn ``name()`` and ``Class.name()`` into references. Sphinx shows those of other projects as code."""
    for number, line in enumerate(lines):
        lines[number] = re.sub(r"``?((?:[A-Z]\w+\.)?[a-z]\w*)\(\)``?", r":py:meth:`\1`", line)


def setup(app):
    """Register the hooks with Sphinx."""
    app.connect("autodoc-process-docstring", drop_signature)
    app.connect("autodoc-process-docstring", link_methods)
