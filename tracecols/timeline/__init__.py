"""The timeline in a browser: from a heat map of the whole run to single events, with waits and their causes.

`prepare` makes the files that are kept with a store, `Timeline` answers questions about a time range, `server` sends
the answers to the page.
"""
