"""Answers for programs (docs/serve.md): the tools of `tracecols serve --mcp`, and their server.

* `pages`: an answer as text of bounded length: facts, and a page of the rows of one table.
* `files`: the files that may be opened, and a cache of open ones.
* `tools`: the tools; each calls the functions that the command of the same name calls.
* `server`: the Model Context Protocol, by its SDK; the only module that imports it.
"""
