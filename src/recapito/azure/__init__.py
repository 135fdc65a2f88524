"""Reaching Azure's services with Microsoft's own clients: by connection, guarded, their errors as Outcomes."""
