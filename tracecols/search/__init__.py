"""The search for properties: from the model of a trace to its severity cube."""
