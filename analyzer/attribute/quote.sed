# Makes a C string literal of a text file: every line in quotes.
s/\\/\\\\/g
s/"/\\"/g
s/.*/"&\\n"/
