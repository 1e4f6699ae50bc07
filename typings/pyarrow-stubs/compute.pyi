"""pyarrow makes most of these functions when it is imported, where no type checker sees them."""

from typing import Any

def __getattr__(name: str) -> Any: ...
