"""The viewer of severity cubes: three coupled trees (thesis 4.5) and topologies, in an HTML file or in a notebook."""

from tracecols.report.viewer.notebook import html_table, mimebundle, widget
from tracecols.report.viewer.page import write_page
from tracecols.report.viewer.topologies import topologies_of

__all__ = ["html_table", "mimebundle", "topologies_of", "widget", "write_page"]
