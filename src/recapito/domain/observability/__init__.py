"""Traces and diagnostic records as values, in the shapes of the W3C and of Azure."""
