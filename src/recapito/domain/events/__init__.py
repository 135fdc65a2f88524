"""Events as publishers send them and as segments store them, in the Event Grid, CloudEvents and custom schemas.

An event is stored as the bytes that are sent; a schema is converted once, on its way out.
"""
