"""A small drawing of each wait state: a tiny program, written down with its times, as a time line of two or three
processes (SVG for pages and reports, plain text for the terminal). The tests analyse the same programs."""
