"""The performance properties of the 1999 EXPERT class library as named, parameterised rules over a cube and its
trace."""

from tracecols.given.parameters import Parameter
from tracecols.rules.base import Rule, Statement, Verdict
from tracecols.rules.evaluate import RULES, evaluate, frame, read_settings

__all__ = ["RULES", "Parameter", "Rule", "Statement", "Verdict", "evaluate", "frame", "read_settings"]
