"""A study of non-clairvoyant schedulers on logs that they have never seen: windows, rivals, scores."""
