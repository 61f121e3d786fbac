"""Arnold: gangs of whole servers, placed so that the groups of their ranks span few minipods."""
