"""How `make docs` builds the site. Needs an installed hwheel with its extras, and no network."""

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))
PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]

project = PROJECT["name"]
author = PROJECT["authors"][0]["name"]
copyright = author
version = release = PROJECT["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docstrings",
    "links",
    "command_help",
    "all_public_names",
]
exclude_patterns = ["extensions", "pictures/*.py"]
suppress_warnings = ["myst.header"]  # bench/README.md begins one level down
smartquotes = False  # what stands in quotes is mostly to be typed
highlight_language = "text"  # an indented block is what an example prints

# Links to headings, as GitHub makes them.
myst_heading_anchors = 4

# Every reference to a name of ours must lead somewhere. Those of others have no page here, because their inventories
# would have to be fetched, and the build asks nobody.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!hwheel\.).*"),
    ("py:.*", r"hwheel\.\w+\.\w+\.\w+"),  # of a module that is not public: the type variables of annotations
    ("py:.*", r"hwheel\.asyncio\.WheelUnixSelectorEventLoop"),  # the name of what EventLoop is made of
]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_docstring_signature = False  # docstrings.py does
maximum_signature_line_length = 90
python_use_unqualified_type_names = True

html_theme = "furo"
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

# `make docs BUILDER=linkcheck`. The repository's own pages are there once this version is tagged.
linkcheck_ignore = [rf"{PROJECT['urls']['Repository']}/.*"]
linkcheck_anchors_ignore_for_url = [r"https://github\.com/.*"]  # these are made by a script
linkcheck_timeout = 20
