"""What can be cited, under which address, and the text that is pasted into a mail."""
