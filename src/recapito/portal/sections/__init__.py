"""The sections of an event subscription's form: each shows a part of the API's body and reads it back."""
