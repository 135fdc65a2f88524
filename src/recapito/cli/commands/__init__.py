"""The commands, one file for each noun of the command line, and nothing else."""
