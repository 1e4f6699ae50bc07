"""Another thread, in which a lock that this one has kept would show."""

import threading


def elsewhere(function):
    """What function() returns in another thread."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "a lock stays taken"
    return answers[0]
