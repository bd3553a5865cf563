"""Page that shows pipelines in a browser: their state, lag, batches, dead letters, and what a reset would do.

::

    observers.py    what one pipeline is like now, from its process or from its ledgers and Kafka
    conditions.py   what that means: behind, paused, taken over                               (pure)
    history.py      a day of samples of one pipeline in bounded memory                        (pure)
    board.py        a thread that observes all pipelines, and keeps what the page asks for
    details.py      dead letters and resets, looked up when somebody opens them
    routes.py       HTTP: the page's files, JSON, events, and the guards of changes
    page/           what the browser gets
"""
