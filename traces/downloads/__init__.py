"""The list of public files, and downloads of them that are verified and can be resumed."""
