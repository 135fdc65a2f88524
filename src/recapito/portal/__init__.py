"""The portal: web pages for people. It asks the server through its HTTP API like any other client, in a process of its own."""
