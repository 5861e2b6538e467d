"""Root causes: where processes and threads synchronise, who let whom wait, what that cost, and the critical path
(docs/root-causes.md)."""
