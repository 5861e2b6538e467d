"""The timeline in a browser: from a heat map of the whole run to single events, with waits and their causes.

`prepare` makes what is kept of a store, `Timeline` answers questions about a range of time, `server` gives the answers
to the page.
"""
