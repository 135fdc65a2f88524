"""The sections of an event subscription's form: each shows a part of what the API says, and reads it back."""
