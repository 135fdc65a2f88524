"""The operating system: names that survive a power cut, files with secrets, processes and their parents."""
