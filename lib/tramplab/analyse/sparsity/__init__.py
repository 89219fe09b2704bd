"""Structures of registers that are filled in part: who fills what, who reads what, and what is concluded from the rest."""
