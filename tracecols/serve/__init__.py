"""Answers for programs (docs/serve.md): the tools that `tracecols serve --mcp` offers, and how they are served.

* `pages`: an answer as text of bounded length: facts, and a page of the rows of one table.
* `files`: which files may be opened, and what is kept open.
* `tools`: the tools; each asks the functions that the command of its name asks.
* `server`: the Model Context Protocol, by its SDK; the only module that imports it.
"""
