"""The small parts that pages are made of: tables, forms, charts, dialogs."""
