"""The static site of the leaderboard, and the entries that come with the package."""
