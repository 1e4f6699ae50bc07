"""The `hwheel` command. What it computes and what it draws are apart: only the modules called `draw` import rich."""
