"""A small drawing of each wait state: a tiny program with given event times, as a timeline of two or three processes
(SVG for pages and reports, plain text for the terminal). The tests analyse the same programs."""
