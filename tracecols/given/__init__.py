"""Input from callers: arguments, files, numbers with units, names to print, parameters, plug-ins."""
