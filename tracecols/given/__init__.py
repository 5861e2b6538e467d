"""Input from callers: arguments, files, numbers with units, names to print, parameters of patterns, plug-ins of
installed packages."""
