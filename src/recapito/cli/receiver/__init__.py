"""The webhook behind `recapito listen`, and the script by which it answers."""
