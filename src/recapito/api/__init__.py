"""The HTTP surface. Statuses and wire names live here and nowhere below.

`publish/` is the hot path, `arm/` manages resources under ARM's paths, `wire/` reads and shows their bodies, `operate/`
serves operators, `auth/` admits callers. One table, in `errors`, turns errors into answers.
"""
