"""The compiled loop of list schedulers: schedulers that sort the jobs and start them in that order."""
