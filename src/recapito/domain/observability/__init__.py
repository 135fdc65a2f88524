"""Traces and diagnostic records as values, in the formats of the W3C and of Azure."""
