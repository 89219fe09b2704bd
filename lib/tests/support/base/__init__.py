"""Files, data and processes as tests need them: damaged, made up, or without workers."""
