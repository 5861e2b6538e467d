"""EPILOG: the trace format of KOJAK and Scalasca 1.x, merged traces and EPIK archives."""
