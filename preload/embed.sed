# Python source as the lines of one C string.
s/[\\"]/\\&/g
s/.*/"&\\n"/
