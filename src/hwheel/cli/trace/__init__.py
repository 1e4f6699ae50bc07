"""``hwheel trace``: print how tasks travel down a wheel, step by step."""
