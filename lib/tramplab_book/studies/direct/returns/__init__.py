"""Returns that are seen with the call's arguments: direct calls, and fprobes since."""
