"""Keys whose comparison is somebody's code."""


class Key:
    """Equal to another of the same number; all of them collide. `meddle` is called in each comparison."""

    meddle = None

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return 7

    def __eq__(self, other):
        if Key.meddle is not None:
            Key.meddle()
        return isinstance(other, Key) and self.number == other.number

    def __repr__(self):
        return f"Key({self.number})"
