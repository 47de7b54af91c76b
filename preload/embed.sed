# Python source as the lines of one C string: the body of a class, so that one compilation gives each file a code object.
s/[\\"]/\\&/g
s/.*/" &\\n"/
