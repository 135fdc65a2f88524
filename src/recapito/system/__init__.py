"""The operating system as we rely on it: names that survive a power cut, files with secrets, the tie to a parent."""
