"""Recapito: Azure Event Grid's push delivery that you run yourself."""

__version__ = "0.1.0"
