"""Structures of registers: their fields, who provides them, and what is in their slots."""
