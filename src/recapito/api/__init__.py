"""The HTTP surface: publish, manage (ARM) and operate. HTTP statuses and wire names live here and nowhere below."""
