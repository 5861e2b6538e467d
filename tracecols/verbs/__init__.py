"""Common questions of performance analysts, each answered with a small table that can be plotted.

`Trace` has a method for each (`comm_matrix`, `late_senders`, ...), which delegates to the functions here. They process
the tables of a trace slice by slice (`passes`), so that they need no more memory than an analysis, and return an
`Answer` whose columns are declared in `tracecols.schema.answers`.

* `messages`: who sends how much to whom, and when.
* `times`: where the time goes, by region, by process, by interval of time, by iteration.
* `waiting`: who waits for whom, and the worst instances of a wait state.
* `recording`: the cost of recording regions.
* `pictures`: how each answer is drawn.
"""
