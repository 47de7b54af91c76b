# Text to a C string literal: every line in quotes.
s/\\/\\\\/g
s/"/\\"/g
s/.*/"&\\n"/
