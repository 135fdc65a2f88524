"""How fast Recapito is: `python -m bench` measures it on this machine, in ratios, and prints a table."""
