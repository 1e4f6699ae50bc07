"""The `hwheel` command. What it computes and what it draws are apart: only the *_draw modules import rich.

    command.py          the parser of the whole command line, and how it ends
    options.py          a parser with one-line errors, and the types of option values
    errors.py           what ends the command with exit status 2
    rich_extra.py       what to say where rich is not installed
    clock_time.py       milliseconds as the time of day

    trace_command.py    `hwheel trace`: its options
    trace_steps.py      its steps, computed
    trace_json.py       its steps for programs
    trace_draw.py       its steps for people

    demo_command.py     `hwheel demo`: its options
    workload.py         requests: made up, or a sample of others
    request_log.py      requests: read from a log
    engines.py          the wheel and its peers behind one face
    drive.py            runs a workload on one of them
    account.py          is every timer accounted for exactly once?
    outcome.py          what a run comes to
    memory.py           what a pending timer takes
    demo_draw.py        progress, table and verdict

    tune_command.py     `hwheel tune`: its options
    tune_source.py      where the log is replayed: here, a file at a time, or on Spark
    tune_draw.py        progress, tables and advice; what is drawn is computed in hwheel.tune
"""
