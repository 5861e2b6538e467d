"""Root causes: where processes and threads synchronise, the causes of waits, their costs, and the critical path
(docs/root-causes.md)."""
