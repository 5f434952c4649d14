"""The statements of a file: the tokens up to a semicolon, read into what they say."""
