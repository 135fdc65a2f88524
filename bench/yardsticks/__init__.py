"""The same work done with general task queues on Redis: HTTP in, a durable queue, a POST out."""
