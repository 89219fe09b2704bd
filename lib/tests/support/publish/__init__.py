"""Example charts and claims, and findings held against other rows."""
