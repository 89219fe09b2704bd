"""Which frames an unwinder finds at each instruction of a call: by frame pointers, by ORC's rules, and through return hooks."""
