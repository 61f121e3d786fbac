"""Pseudonyms: names of users, accounts, jobs and nodes are replaced under a key of the user's own."""
