"""Stack traces and return predictions while a function's return is hooked."""
