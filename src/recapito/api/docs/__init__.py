"""The OpenAPI description, made from the routes and the types of their bodies."""
